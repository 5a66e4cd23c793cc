-- The record of the gate. Nothing wrote to the table of version 1.
DROP TABLE proof;

CREATE TABLE proof (
    rule_hash VARCHAR NOT NULL,
    status VARCHAR NOT NULL CHECK (status IN ('proved', 'bounded', 'refuted', 'refused', 'unknown')),
    reason VARCHAR NOT NULL,
    ranks VARCHAR NOT NULL,
    within VARCHAR NOT NULL,
    algebras VARCHAR[] NOT NULL,
    conditions VARCHAR[] NOT NULL,
    counterexample_kind VARCHAR,
    counterexample VARCHAR,
    snippet VARCHAR,
    obligations INTEGER NOT NULL,
    obligations_hash VARCHAR NOT NULL,
    prover VARCHAR NOT NULL,
    solver VARCHAR NOT NULL,
    rechecker VARCHAR,
    time_ns BIGINT NOT NULL,
    proved_at TIMESTAMP NOT NULL
);
COMMENT ON TABLE proof IS 'What the gate found of a rule, one row a rule; any edit of the rule voids it.';
COMMENT ON COLUMN proof.rule_hash IS 'Rule.';
COMMENT ON COLUMN proof.status IS 'proved for all sizes and ranks; bounded: for all sizes at the ranks listed; refuted by a counterexample; refused as ill-typed or vacuous; unknown.';
COMMENT ON COLUMN proof.reason IS 'Why it is not proved; empty if it is.';
COMMENT ON COLUMN proof.ranks IS 'Ranks that the proof speaks of: all, or a list.';
COMMENT ON COLUMN proof.within IS 'Ranks and lengths that a bounded rule is proved for, as JSON: {"rank(X)": [0, 1, 2, 3]}; {} of others.';
COMMENT ON COLUMN proof.algebras IS 'Algebras it was proved in: real, integer (modulo a power of two), boolean.';
COMMENT ON COLUMN proof.conditions IS 'Side conditions under which it would hold, in the rule language; empty where it holds or none was found.';
COMMENT ON COLUMN proof.counterexample_kind IS 'How the sides differ: value, shape, type, undefined, defined; NULL without a counterexample.';
COMMENT ON COLUMN proof.counterexample IS 'Sizes and numbers at which they differ; NULL without a counterexample.';
COMMENT ON COLUMN proof.snippet IS 'A program that shows it; NULL without a counterexample.';
COMMENT ON COLUMN proof.obligations IS 'Queries that the solver answered with unsat.';
COMMENT ON COLUMN proof.obligations_hash IS 'SHA-256, in hexadecimal, of the sorted hashes of their scripts.';
COMMENT ON COLUMN proof.prover IS 'Hash of the text of the prover.';
COMMENT ON COLUMN proof.solver IS 'Solver and release.';
COMMENT ON COLUMN proof.rechecker IS 'Second solver and release; NULL if nothing was rechecked.';
COMMENT ON COLUMN proof.time_ns IS 'Time it took.';
COMMENT ON COLUMN proof.proved_at IS 'When, in UTC.';

CREATE TABLE proof_specification (rule_hash VARCHAR NOT NULL, operator VARCHAR NOT NULL, specification_hash VARCHAR NOT NULL);
COMMENT ON TABLE proof_specification IS 'What the operators of a rule meant when it was proved.';
COMMENT ON COLUMN proof_specification.rule_hash IS 'Rule.';
COMMENT ON COLUMN proof_specification.operator IS 'Operator, as domain:name outside of ai.onnx.';
COMMENT ON COLUMN proof_specification.specification_hash IS 'Hash of its specification in the operator sets of the rule; none where it has no specification.';

CREATE TABLE proof_case (
    rule_hash VARCHAR NOT NULL,
    position INTEGER NOT NULL,
    title VARCHAR NOT NULL,
    status VARCHAR NOT NULL CHECK (status IN ('proved', 'open')),
    reason VARCHAR NOT NULL,
    queries INTEGER NOT NULL,
    time_ns BIGINT NOT NULL
);
COMMENT ON TABLE proof_case IS 'Statements that a rule stands for: its ranks, list lengths and discrete attributes.';
COMMENT ON COLUMN proof_case.rule_hash IS 'Rule.';
COMMENT ON COLUMN proof_case.position IS 'Order.';
COMMENT ON COLUMN proof_case.title IS 'Which case it is.';
COMMENT ON COLUMN proof_case.status IS 'proved, or open: neither proved nor refuted.';
COMMENT ON COLUMN proof_case.reason IS 'What could not be shown; empty if proved.';
COMMENT ON COLUMN proof_case.queries IS 'Questions put to the solver.';
COMMENT ON COLUMN proof_case.time_ns IS 'Time it took.';

CREATE TABLE obligation (
    rule_hash VARCHAR NOT NULL,
    position INTEGER NOT NULL,
    title VARCHAR NOT NULL,
    purpose VARCHAR NOT NULL,
    script_hash VARCHAR NOT NULL,
    solver VARCHAR NOT NULL,
    result VARCHAR NOT NULL CHECK (result IN ('unsat')),
    rechecker VARCHAR,
    recheck VARCHAR NOT NULL CHECK (recheck IN ('agree', 'unknown', 'disagree', 'absent')),
    time_ns BIGINT NOT NULL,
    recheck_ns BIGINT NOT NULL
);
COMMENT ON TABLE obligation IS 'Questions whose answer, unsat, a proof rests on.';
COMMENT ON COLUMN obligation.rule_hash IS 'Rule.';
COMMENT ON COLUMN obligation.position IS 'Order.';
COMMENT ON COLUMN obligation.title IS 'Case that asked, as in proof_case.';
COMMENT ON COLUMN obligation.purpose IS 'What was to be shown.';
COMMENT ON COLUMN obligation.script_hash IS 'Script.';
COMMENT ON COLUMN obligation.solver IS 'Solver and release.';
COMMENT ON COLUMN obligation.result IS 'Its answer.';
COMMENT ON COLUMN obligation.rechecker IS 'Second solver and release; NULL if it was not asked.';
COMMENT ON COLUMN obligation.recheck IS 'agree: unsat too. disagree: sat. unknown: no answer in time. absent: not asked.';
COMMENT ON COLUMN obligation.time_ns IS 'Time of the solver.';
COMMENT ON COLUMN obligation.recheck_ns IS 'Time of the second solver.';

CREATE TABLE script (script_hash VARCHAR NOT NULL, text VARCHAR NOT NULL);
COMMENT ON TABLE script IS 'Questions to solvers by content: equal scripts share one row.';
COMMENT ON COLUMN script.script_hash IS 'SHA-256, in hexadecimal, of the text.';
COMMENT ON COLUMN script.text IS 'SMT-LIB 2.6.';

CREATE TABLE floating_behaviour (
    rule_hash VARCHAR NOT NULL,
    dtype VARCHAR NOT NULL,
    family VARCHAR NOT NULL,
    samples INTEGER NOT NULL,
    source_error DOUBLE NOT NULL,
    target_error DOUBLE NOT NULL,
    max_ratio DOUBLE NOT NULL,
    upper_ratio DOUBLE NOT NULL,
    median_ratio DOUBLE NOT NULL,
    verdict VARCHAR NOT NULL CHECK (verdict IN ('equal', 'rounds', 'unsafe')),
    lost VARCHAR NOT NULL
);
COMMENT ON TABLE floating_behaviour IS 'How far each side of a rule is from its value in float64, by family of inputs.';
COMMENT ON COLUMN floating_behaviour.rule_hash IS 'Rule.';
COMMENT ON COLUMN floating_behaviour.dtype IS 'Element type of the operands.';
COMMENT ON COLUMN floating_behaviour.family IS 'Inputs: normal, mean far above spread, near-cancelling, ... .';
COMMENT ON COLUMN floating_behaviour.samples IS 'Runs.';
COMMENT ON COLUMN floating_behaviour.source_error IS 'Largest error of the source, relative to its largest output.';
COMMENT ON COLUMN floating_behaviour.target_error IS 'The same of the target.';
COMMENT ON COLUMN floating_behaviour.max_ratio IS 'Error of the target over that of the source on an instance, each at least a unit in the last place: the largest over the instances.';
COMMENT ON COLUMN floating_behaviour.upper_ratio IS 'Their third quartile.';
COMMENT ON COLUMN floating_behaviour.median_ratio IS 'Their median.';
COMMENT ON COLUMN floating_behaviour.verdict IS 'equal: in all bits. rounds: as correct programs may differ. unsafe: far worse than the source.';
COMMENT ON COLUMN floating_behaviour.lost IS 'Where the target is not finite though the source is; empty for nowhere.';

CREATE TABLE floating_special (
    rule_hash VARCHAR NOT NULL,
    dtype VARCHAR NOT NULL,
    kind VARCHAR NOT NULL,
    samples INTEGER NOT NULL,
    verdict VARCHAR NOT NULL CHECK (verdict IN ('kept', 'differs', 'broken')),
    example VARCHAR NOT NULL
);
COMMENT ON TABLE floating_special IS 'What a rule does to NaN, infinities, zeros, subnormal numbers and overflow.';
COMMENT ON COLUMN floating_special.rule_hash IS 'Rule.';
COMMENT ON COLUMN floating_special.dtype IS 'Element type of the operands.';
COMMENT ON COLUMN floating_special.kind IS 'What was put among the inputs, as nan.';
COMMENT ON COLUMN floating_special.samples IS 'Runs.';
COMMENT ON COLUMN floating_special.verdict IS 'kept: the outputs are alike. differs: they are not, as the class of the rule allows. broken: its class promises that they are.';
COMMENT ON COLUMN floating_special.example IS 'An element that differs; empty if none does.';

CREATE TABLE floating_proof (
    rule_hash VARCHAR NOT NULL,
    dtype VARCHAR NOT NULL,
    result VARCHAR NOT NULL CHECK (result IN ('proved', 'refuted', 'unknown')),
    method VARCHAR NOT NULL,
    finite BOOLEAN NOT NULL,
    reason VARCHAR NOT NULL,
    script_hash VARCHAR,
    solver VARCHAR,
    time_ns BIGINT NOT NULL
);
COMMENT ON TABLE floating_proof IS 'Whether both sides of a rule are equal bit by bit, NaNs up to their payload.';
COMMENT ON COLUMN floating_proof.rule_hash IS 'Rule.';
COMMENT ON COLUMN floating_proof.dtype IS 'Element type of the operands; any: all of them.';
COMMENT ON COLUMN floating_proof.result IS 'proved: for every input. refuted: not for the input in reason. unknown: neither was shown.';
COMMENT ON COLUMN floating_proof.method IS 'movement: elements are only moved. same: the same arithmetic. solver: its theory of floating-point numbers. search: of operands. none.';
COMMENT ON COLUMN floating_proof.finite IS 'Whether finite operands and results were supposed.';
COMMENT ON COLUMN floating_proof.reason IS 'Why it is not proved; empty if it is.';
COMMENT ON COLUMN floating_proof.script_hash IS 'Script of the longest question to the solver; NULL if none was put.';
COMMENT ON COLUMN floating_proof.solver IS 'Solver and release; NULL if none was asked.';
COMMENT ON COLUMN floating_proof.time_ns IS 'Time it took.';
