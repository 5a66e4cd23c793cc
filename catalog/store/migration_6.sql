-- What rules were worth to plans.
CREATE TABLE plan_rule (
    plan_id BIGINT NOT NULL,
    rule VARCHAR NOT NULL,
    places INTEGER NOT NULL,
    reached INTEGER NOT NULL,
    applied INTEGER NOT NULL,
    gain_ns DOUBLE,
    ratio_without DOUBLE,
    why_not VARCHAR NOT NULL
);
COMMENT ON TABLE plan_rule IS 'What rules were worth to a plan, where `tensolog rules value` asked.';
COMMENT ON COLUMN plan_rule.plan_id IS 'Plan.';
COMMENT ON COLUMN plan_rule.rule IS 'Rule that matches in its model.';
COMMENT ON COLUMN plan_rule.places IS 'Matches in the model as it was read.';
COMMENT ON COLUMN plan_rule.reached IS 'Matches in the e-graph.';
COMMENT ON COLUMN plan_rule.applied IS 'Rewrites by it in the winner.';
COMMENT ON COLUMN plan_rule.gain_ns IS 'What their kernels cost less; NULL where no kernel tells.';
COMMENT ON COLUMN plan_rule.ratio_without IS 'Time of the winner that does without it over that of the original; NULL if not asked.';
COMMENT ON COLUMN plan_rule.why_not IS 'Why the winner does without it; empty where it does not.';
