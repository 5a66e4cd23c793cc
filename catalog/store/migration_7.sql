-- Plans of models for several devices.
CREATE TABLE placement (
    placement_hash VARCHAR PRIMARY KEY,
    model VARCHAR NOT NULL,
    cluster_hash VARCHAR NOT NULL,
    goal VARCHAR NOT NULL,
    name VARCHAR NOT NULL,
    instances INTEGER NOT NULL,
    latency_s DOUBLE NOT NULL,
    requests_per_s DOUBLE NOT NULL,
    exact BOOLEAN NOT NULL,
    stored_at TIMESTAMP NOT NULL
);
COMMENT ON TABLE placement IS 'Plans of models for several devices, with what they are simulated to take.';
COMMENT ON COLUMN placement.placement_hash IS 'Key: SHA-256, in hexadecimal, of the plan.';
COMMENT ON COLUMN placement.model IS 'Name of the model.';
COMMENT ON COLUMN placement.cluster_hash IS 'Cluster that it is for.';
COMMENT ON COLUMN placement.goal IS 'latency, throughput or memory.';
COMMENT ON COLUMN placement.name IS 'What kind of plan it is.';
COMMENT ON COLUMN placement.instances IS 'Copies of the model.';
COMMENT ON COLUMN placement.latency_s IS 'Time of a request in the first instance.';
COMMENT ON COLUMN placement.requests_per_s IS 'Requests a second of all instances.';
COMMENT ON COLUMN placement.exact IS 'Whether no other plan of the search space is better.';
COMMENT ON COLUMN placement.stored_at IS 'When it was stored, in UTC.';

CREATE TABLE placement_operator (
    placement_hash VARCHAR NOT NULL,
    instance INTEGER NOT NULL,
    position INTEGER NOT NULL,
    operator VARCHAR NOT NULL,
    op_type VARCHAR NOT NULL,
    devices VARCHAR[] NOT NULL
);
COMMENT ON TABLE placement_operator IS 'Where the operators of such plans are computed.';
COMMENT ON COLUMN placement_operator.placement_hash IS 'Plan.';
COMMENT ON COLUMN placement_operator.instance IS 'Copy of the model, from 0.';
COMMENT ON COLUMN placement_operator.position IS 'Order of the operator.';
COMMENT ON COLUMN placement_operator.operator IS 'Name of the node.';
COMMENT ON COLUMN placement_operator.op_type IS 'Operator.';
COMMENT ON COLUMN placement_operator.devices IS 'Device of each part, the last cut running fastest; where there are more, replicas of a part side by side.';

CREATE TABLE cut (
    placement_hash VARCHAR NOT NULL,
    instance INTEGER NOT NULL,
    position INTEGER NOT NULL,
    place INTEGER NOT NULL,
    kind VARCHAR NOT NULL,
    combine VARCHAR NOT NULL,
    axis INTEGER,
    parts INTEGER NOT NULL,
    rule_hash VARCHAR NOT NULL
);
COMMENT ON TABLE cut IS 'How operators of such plans are divided.';
COMMENT ON COLUMN cut.placement_hash IS 'Plan.';
COMMENT ON COLUMN cut.instance IS 'Copy of the model.';
COMMENT ON COLUMN cut.position IS 'Operator.';
COMMENT ON COLUMN cut.place IS 'Order of the cut among those of the operator.';
COMMENT ON COLUMN cut.kind IS 'sample, attribute, parameter or reduction.';
COMMENT ON COLUMN cut.combine IS 'How the parts make the output: concat, or sum, max, min, prod.';
COMMENT ON COLUMN cut.axis IS 'Axis of the first output that is divided; NULL for a reduction.';
COMMENT ON COLUMN cut.parts IS 'Number of parts.';
COMMENT ON COLUMN cut.rule_hash IS 'Rule that says so, proved as the table proof has it.';

CREATE TABLE placement_device (placement_hash VARCHAR NOT NULL, device VARCHAR NOT NULL, memory_bytes BIGINT NOT NULL);
COMMENT ON TABLE placement_device IS 'What such plans take of each device.';
COMMENT ON COLUMN placement_device.placement_hash IS 'Plan.';
COMMENT ON COLUMN placement_device.device IS 'Name of the device.';
COMMENT ON COLUMN placement_device.memory_bytes IS 'The most that it holds at a time, weights included.';
