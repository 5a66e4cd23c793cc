-- Rules that a pass of the optimizer asks for have a tag of their own.
ALTER TABLE rule RENAME TO rule_10;
CREATE TABLE rule (
    rule_hash VARCHAR PRIMARY KEY,
    name VARCHAR NOT NULL,
    family VARCHAR NOT NULL,
    tag VARCHAR NOT NULL CHECK (tag IN ('always', 'explore', 'pass')),
    equal VARCHAR NOT NULL CHECK (equal IN ('exact', 'rounding', 'partial')),
    finite_math BOOLEAN NOT NULL,
    target VARCHAR,
    opset_from INTEGER,
    opset_to INTEGER,
    summary VARCHAR NOT NULL,
    text VARCHAR NOT NULL,
    proof VARCHAR
);
INSERT INTO rule BY NAME SELECT * FROM rule_10;
DROP TABLE rule_10;
COMMENT ON TABLE rule IS 'Rewrite rules that were loaded.';
COMMENT ON COLUMN rule.rule_hash IS 'SHA-256, in hexadecimal, of the canonical text: without comments, and however it is spaced.';
COMMENT ON COLUMN rule.name IS 'Rule name.';
COMMENT ON COLUMN rule.family IS 'Rule file it stands in.';
COMMENT ON COLUMN rule.tag IS 'always: applied to a fixpoint. explore: cost decides. pass: a pass of the optimizer asks for it.';
COMMENT ON COLUMN rule.equal IS 'exact, rounding or partial equality of both sides.';
COMMENT ON COLUMN rule.finite_math IS 'Whether it assumes finite operands.';
COMMENT ON COLUMN rule.target IS 'Target that the rule is for; NULL for any.';
COMMENT ON COLUMN rule.opset_from IS 'Least operator set version; NULL for any.';
COMMENT ON COLUMN rule.opset_to IS 'Greatest operator set version; NULL for any.';
COMMENT ON COLUMN rule.summary IS 'What it does, in a line.';
COMMENT ON COLUMN rule.text IS 'The rule in canonical spelling, the comment above it included.';
COMMENT ON COLUMN rule.proof IS 'How far it is proved: proved, bounded, refuted, refused or unknown, as in proof; stale: by another prover; unproved: no proof is known; NULL until an optimization looks.';
