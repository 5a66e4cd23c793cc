-- What `tensolog rules generate` saw: runs, sizes, classes, candidates.
CREATE TABLE generation_run (
    run_hash VARCHAR NOT NULL,
    command VARCHAR NOT NULL,
    operators VARCHAR[] NOT NULL,
    nodes INTEGER NOT NULL,
    inputs INTEGER NOT NULL,
    seed BIGINT NOT NULL,
    specifications VARCHAR NOT NULL,
    status VARCHAR NOT NULL CHECK (status IN ('running', 'complete', 'stopped')),
    time_ns BIGINT NOT NULL,
    changed_at TIMESTAMP NOT NULL
);
COMMENT ON TABLE generation_run IS 'Searches for rules by enumeration; the same command continues one that was stopped.';
COMMENT ON COLUMN generation_run.run_hash IS 'Key: SHA-256, in hexadecimal, of what determines the result.';
COMMENT ON COLUMN generation_run.command IS 'Command line.';
COMMENT ON COLUMN generation_run.operators IS 'Operators.';
COMMENT ON COLUMN generation_run.nodes IS 'Operators that a term may have.';
COMMENT ON COLUMN generation_run.inputs IS 'Variables of the main shape.';
COMMENT ON COLUMN generation_run.seed IS 'Seed of the numbers that terms are compared on.';
COMMENT ON COLUMN generation_run.specifications IS 'Hash of the specifications of all operators.';
COMMENT ON COLUMN generation_run.status IS 'running, or killed; complete: nothing is open; stopped: interrupted, or out of budget or memory.';
COMMENT ON COLUMN generation_run.time_ns IS 'Time of the last run.';
COMMENT ON COLUMN generation_run.changed_at IS 'When the last run stored something, in UTC.';

CREATE TABLE generation_level (
    run_hash VARCHAR NOT NULL,
    nodes INTEGER NOT NULL,
    terms BIGINT NOT NULL,
    undefined BIGINT NOT NULL,
    classes BIGINT NOT NULL,
    equalities BIGINT NOT NULL,
    complete BOOLEAN NOT NULL
);
COMMENT ON TABLE generation_level IS 'Terms of one size that a run enumerated.';
COMMENT ON COLUMN generation_level.run_hash IS 'Run.';
COMMENT ON COLUMN generation_level.nodes IS 'Operators of a term.';
COMMENT ON COLUMN generation_level.terms IS 'Terms computed.';
COMMENT ON COLUMN generation_level.undefined IS 'Terms without a value on the numbers drawn.';
COMMENT ON COLUMN generation_level.classes IS 'Terms that equal no earlier one.';
COMMENT ON COLUMN generation_level.equalities IS 'Terms that equal an earlier one.';
COMMENT ON COLUMN generation_level.complete IS 'Whether all terms of the size were seen.';

CREATE TABLE generation_class (
    run_hash VARCHAR NOT NULL,
    class INTEGER NOT NULL,
    nodes INTEGER NOT NULL,
    dtype VARCHAR NOT NULL,
    shapes VARCHAR NOT NULL,
    term VARCHAR NOT NULL,
    fingerprint VARCHAR NOT NULL
);
COMMENT ON TABLE generation_class IS 'Terms that equal no smaller one on the numbers drawn: larger ones are built of them.';
COMMENT ON COLUMN generation_class.run_hash IS 'Run.';
COMMENT ON COLUMN generation_class.class IS 'Number.';
COMMENT ON COLUMN generation_class.nodes IS 'Operators of the representative; 0 for a variable.';
COMMENT ON COLUMN generation_class.dtype IS 'Element type.';
COMMENT ON COLUMN generation_class.shapes IS 'Shape under each draw of sizes.';
COMMENT ON COLUMN generation_class.term IS 'Representative, in the rule language.';
COMMENT ON COLUMN generation_class.fingerprint IS 'Hash of its elements, in hexadecimal.';

CREATE TABLE generation_candidate (
    run_hash VARCHAR NOT NULL,
    position INTEGER NOT NULL,
    nodes INTEGER NOT NULL,
    left_term VARCHAR NOT NULL,
    right_term VARCHAR NOT NULL,
    operators VARCHAR[] NOT NULL,
    variables INTEGER NOT NULL,
    status VARCHAR NOT NULL CHECK (status IN ('open', 'kept', 'derived', 'refuted', 'refused', 'unknown')),
    reason VARCHAR NOT NULL,
    derived_by VARCHAR[] NOT NULL,
    rules VARCHAR[] NOT NULL
);
COMMENT ON TABLE generation_candidate IS 'Equalities that a run saw, each once up to the names of variables, and what became of them.';
COMMENT ON COLUMN generation_candidate.run_hash IS 'Run.';
COMMENT ON COLUMN generation_candidate.position IS 'Order.';
COMMENT ON COLUMN generation_candidate.nodes IS 'Size at which it was seen.';
COMMENT ON COLUMN generation_candidate.left_term IS 'Left side, in the rule language.';
COMMENT ON COLUMN generation_candidate.right_term IS 'Right side.';
COMMENT ON COLUMN generation_candidate.operators IS 'Operators of both sides.';
COMMENT ON COLUMN generation_candidate.variables IS 'Distinct variables.';
COMMENT ON COLUMN generation_candidate.status IS 'kept: a rule stands for it. derived: other rules lead to it. refuted, refused, unknown: as the gate says. open: not looked at yet.';
COMMENT ON COLUMN generation_candidate.reason IS 'Why it is not proved, or why no rules are named that derive it; empty otherwise.';
COMMENT ON COLUMN generation_candidate.derived_by IS 'Names of rules that derive it; empty where operands in another order do.';
COMMENT ON COLUMN generation_candidate.rules IS 'Hashes of the rules that stand for it, as in rule.';
