-- One meaning for each name: the ratio of a candidate, the difference from the original and the error.
ALTER TABLE rule ADD COLUMN proof VARCHAR;
COMMENT ON COLUMN rule.proof IS 'How far it is proved: proved, bounded, refuted, refused or unknown, as in proof; stale: by another prover; unproved: no proof is known; NULL until an optimization looks.';

-- max_relative was the error before; what the difference was relative to the scale is only known where
-- there was none, or where both are shares of elements.
ALTER TABLE plan_deviation RENAME TO plan_deviation_2;
CREATE TABLE plan_deviation (
    plan_id BIGINT NOT NULL,
    candidate VARCHAR NOT NULL,
    distribution VARCHAR NOT NULL,
    output VARCHAR NOT NULL,
    max_absolute DOUBLE NOT NULL,
    max_relative DOUBLE,
    max_error DOUBLE NOT NULL,
    tolerance DOUBLE NOT NULL,
    within BOOLEAN NOT NULL
);
COMMENT ON TABLE plan_deviation IS 'How far the outputs of a candidate are from those of the original.';
COMMENT ON COLUMN plan_deviation.plan_id IS 'Plan.';
COMMENT ON COLUMN plan_deviation.candidate IS 'Name.';
COMMENT ON COLUMN plan_deviation.distribution IS 'Distribution of the inputs.';
COMMENT ON COLUMN plan_deviation.output IS 'Output.';
COMMENT ON COLUMN plan_deviation.max_absolute IS 'Largest absolute difference.';
COMMENT ON COLUMN plan_deviation.max_relative IS 'max_absolute over the largest magnitude of the output; NULL where an older release stored it otherwise.';
COMMENT ON COLUMN plan_deviation.max_error IS 'Largest difference from the model in float64 where that runs, else from the original, in the unit of max_relative.';
COMMENT ON COLUMN plan_deviation.tolerance IS 'max_error allowed.';
COMMENT ON COLUMN plan_deviation.within IS 'Whether it is allowed.';
INSERT INTO plan_deviation
    SELECT plan_id, candidate, distribution, output, max_absolute,
        CASE WHEN max_absolute IN (0, max_relative) THEN max_absolute END,
        max_relative, tolerance, within
    FROM plan_deviation_2;
DROP TABLE plan_deviation_2;

COMMENT ON COLUMN plan_candidate.ratio IS 'Time of the candidate over that of the original, paired by round: below 1 is faster.';
COMMENT ON COLUMN plan_candidate.nodes IS 'Nodes in its file, of the main graph; those of the operator Constant count.';
COMMENT ON COLUMN plan_candidate.spread_ns IS 'Spread of the latency: 1.4826 median absolute deviations.';
COMMENT ON COLUMN measurement.spread_ns IS 'Spread of the time of a call: 1.4826 median absolute deviations.';
COMMENT ON COLUMN plan.target IS 'Target, as onnxruntime-cpu; what auto stood for.';
