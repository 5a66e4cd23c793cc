-- The catalog: what tensolog knows, as relations. One statement creates one table; the comments
-- below each table are stored in the database and shown by `tensolog catalog`.
-- Bump the version in store.py and add a migration when a column changes.

CREATE TABLE catalog_version (version INTEGER NOT NULL, tensolog VARCHAR NOT NULL, created_at TIMESTAMP NOT NULL);
COMMENT ON TABLE catalog_version IS 'One row a migration applied; the largest version is the schema in force.';

-- ------------------------------------------------------------------------------------- models

CREATE SEQUENCE model_sequence;
CREATE TABLE model (
    model_id BIGINT PRIMARY KEY DEFAULT nextval('model_sequence'),
    name VARCHAR NOT NULL,
    source_path VARCHAR,
    origin VARCHAR NOT NULL CHECK (origin IN ('imported', 'optimized')),
    parent_model_id BIGINT,
    ir_version BIGINT,
    producer_name VARCHAR,
    producer_version VARCHAR,
    domain VARCHAR,
    model_version BIGINT,
    doc_string VARCHAR,
    rest BLOB,
    size_bytes BIGINT NOT NULL,
    created_at TIMESTAMP NOT NULL
);

CREATE TABLE model_opset (model_id BIGINT NOT NULL, position INTEGER NOT NULL, domain VARCHAR, version BIGINT);
CREATE TABLE model_metadata (model_id BIGINT NOT NULL, position INTEGER NOT NULL, key VARCHAR, value VARCHAR);

CREATE SEQUENCE graph_sequence;
CREATE TABLE graph (
    graph_id BIGINT PRIMARY KEY DEFAULT nextval('graph_sequence'),
    model_id BIGINT NOT NULL,
    kind VARCHAR NOT NULL CHECK (kind IN ('main', 'subgraph', 'function')),
    position INTEGER NOT NULL,
    name VARCHAR,
    domain VARCHAR,
    overload VARCHAR,
    doc_string VARCHAR,
    rest BLOB
);

CREATE SEQUENCE value_sequence;
CREATE TABLE value (
    value_id BIGINT PRIMARY KEY DEFAULT nextval('value_sequence'),
    graph_id BIGINT NOT NULL,
    name VARCHAR NOT NULL,
    dtype VARCHAR,
    rank INTEGER,
    type_source VARCHAR CHECK (type_source IN ('declared', 'inferred')),
    type BLOB
);

CREATE TABLE dimension (value_id BIGINT NOT NULL, axis INTEGER NOT NULL, size BIGINT, symbol VARCHAR);

CREATE TABLE graph_value (
    graph_id BIGINT NOT NULL,
    role VARCHAR NOT NULL CHECK (role IN ('input', 'output', 'value_info')),
    position INTEGER NOT NULL,
    value_id BIGINT NOT NULL,
    rest BLOB
);

CREATE TABLE constant (
    constant_hash VARCHAR PRIMARY KEY,
    dtype VARCHAR NOT NULL,
    shape BIGINT[] NOT NULL,
    size_bytes BIGINT NOT NULL,
    data BLOB,
    location VARCHAR,
    location_offset BIGINT
);

CREATE TABLE initializer (
    graph_id BIGINT NOT NULL,
    position INTEGER NOT NULL,
    value_id BIGINT NOT NULL,
    constant_hash VARCHAR,
    rest BLOB
);

-- -------------------------------------------------------------------------------------- nodes

CREATE SEQUENCE node_sequence;
CREATE TABLE node (
    node_id BIGINT PRIMARY KEY DEFAULT nextval('node_sequence'),
    graph_id BIGINT NOT NULL,
    position INTEGER NOT NULL,
    op_type VARCHAR NOT NULL,
    domain VARCHAR,
    overload VARCHAR,
    name VARCHAR,
    doc_string VARCHAR,
    rest BLOB
);

CREATE TABLE node_input (node_id BIGINT NOT NULL, position INTEGER NOT NULL, name VARCHAR NOT NULL, value_id BIGINT);
CREATE TABLE node_output (node_id BIGINT NOT NULL, position INTEGER NOT NULL, name VARCHAR NOT NULL, value_id BIGINT);

CREATE TABLE attribute (
    node_id BIGINT NOT NULL,
    position INTEGER NOT NULL,
    name VARCHAR NOT NULL,
    type VARCHAR NOT NULL,
    value VARCHAR,
    int_value BIGINT,
    float_value DOUBLE,
    constant_hash VARCHAR,
    subgraph_id BIGINT,
    rest BLOB
);

-- ------------------------------------------------------------------------------ what is known

CREATE TABLE operator (
    domain VARCHAR NOT NULL,
    op_type VARCHAR NOT NULL,
    since_version INTEGER NOT NULL,
    class VARCHAR NOT NULL,
    commutative BOOLEAN NOT NULL,
    deterministic BOOLEAN NOT NULL,
    min_inputs INTEGER NOT NULL,
    max_inputs INTEGER NOT NULL,
    min_outputs INTEGER NOT NULL,
    max_outputs INTEGER NOT NULL,
    deprecated BOOLEAN NOT NULL,
    PRIMARY KEY (domain, op_type, since_version)
);

CREATE TABLE operator_attribute (
    domain VARCHAR NOT NULL,
    op_type VARCHAR NOT NULL,
    since_version INTEGER NOT NULL,
    name VARCHAR NOT NULL,
    type VARCHAR NOT NULL,
    required BOOLEAN NOT NULL,
    default_value VARCHAR
);

CREATE SEQUENCE device_sequence;
CREATE TABLE device (
    device_id BIGINT PRIMARY KEY DEFAULT nextval('device_sequence'),
    fingerprint VARCHAR NOT NULL UNIQUE,
    name VARCHAR NOT NULL,
    cores INTEGER NOT NULL,
    memory_bytes BIGINT NOT NULL,
    instruction_set VARCHAR,
    bandwidth_bytes_per_s DOUBLE,
    peak_flops_per_s DOUBLE,
    measured_at TIMESTAMP
);

CREATE TABLE kernel (
    kernel_hash VARCHAR PRIMARY KEY,
    domain VARCHAR NOT NULL,
    op_type VARCHAR NOT NULL,
    opset INTEGER NOT NULL,
    attributes VARCHAR NOT NULL,
    inputs VARCHAR NOT NULL,
    outputs VARCHAR NOT NULL
);

CREATE SEQUENCE measurement_sequence;
CREATE TABLE measurement (
    measurement_id BIGINT PRIMARY KEY DEFAULT nextval('measurement_sequence'),
    device_id BIGINT NOT NULL,
    kernel_hash VARCHAR NOT NULL,
    runtime VARCHAR NOT NULL,
    runtime_version VARCHAR NOT NULL,
    configuration VARCHAR NOT NULL,
    threads INTEGER NOT NULL,
    median_ns DOUBLE,
    spread_ns DOUBLE,
    minimum_ns DOUBLE,
    samples INTEGER NOT NULL,
    failure VARCHAR,
    measured_at TIMESTAMP NOT NULL
);

CREATE TABLE rule (
    rule_hash VARCHAR PRIMARY KEY,
    name VARCHAR NOT NULL,
    family VARCHAR NOT NULL,
    tag VARCHAR NOT NULL CHECK (tag IN ('always', 'explore')),
    equal VARCHAR NOT NULL CHECK (equal IN ('exact', 'rounding', 'partial')),
    finite_math BOOLEAN NOT NULL,
    target VARCHAR,
    opset_from INTEGER,
    opset_to INTEGER,
    summary VARCHAR NOT NULL,
    text VARCHAR NOT NULL
);

CREATE TABLE rule_node (
    rule_hash VARCHAR NOT NULL,
    side VARCHAR NOT NULL CHECK (side IN ('match', 'rewrite')),
    position INTEGER NOT NULL,
    op_type VARCHAR NOT NULL,
    attributes VARCHAR NOT NULL
);

CREATE TABLE rule_edge (
    rule_hash VARCHAR NOT NULL,
    side VARCHAR NOT NULL CHECK (side IN ('match', 'rewrite')),
    position INTEGER NOT NULL,
    direction VARCHAR NOT NULL CHECK (direction IN ('input', 'output')),
    slot INTEGER NOT NULL,
    value VARCHAR NOT NULL
);

CREATE TABLE rule_condition (rule_hash VARCHAR NOT NULL, position INTEGER NOT NULL, condition VARCHAR NOT NULL);
CREATE TABLE rule_source (rule_hash VARCHAR NOT NULL, position INTEGER NOT NULL, source VARCHAR NOT NULL);

CREATE TABLE proof (
    rule_hash VARCHAR NOT NULL,
    status VARCHAR NOT NULL CHECK (status IN ('proved', 'bounded', 'refuted')),
    method VARCHAR NOT NULL,
    evidence VARCHAR NOT NULL,
    solver VARCHAR,
    time_ns BIGINT,
    proved_at TIMESTAMP NOT NULL
);

-- -------------------------------------------------------------------------------------- plans

CREATE SEQUENCE plan_sequence;
CREATE TABLE plan (
    plan_id BIGINT PRIMARY KEY DEFAULT nextval('plan_sequence'),
    model_id BIGINT NOT NULL,
    result_model_id BIGINT,
    device_id BIGINT,
    target VARCHAR NOT NULL,
    threads INTEGER NOT NULL,
    options VARCHAR NOT NULL,
    chosen VARCHAR NOT NULL,
    created_at TIMESTAMP NOT NULL
);

CREATE TABLE plan_step (
    plan_id BIGINT NOT NULL,
    position INTEGER NOT NULL,
    rule VARCHAR NOT NULL,
    nodes VARCHAR[] NOT NULL,
    removed INTEGER NOT NULL,
    added INTEGER NOT NULL,
    cost_before_ns DOUBLE,
    cost_after_ns DOUBLE,
    accepted BOOLEAN NOT NULL,
    reason VARCHAR NOT NULL
);

CREATE TABLE plan_candidate (
    plan_id BIGINT NOT NULL,
    candidate VARCHAR NOT NULL,
    nodes INTEGER NOT NULL,
    predicted_ns DOUBLE,
    median_ns DOUBLE,
    spread_ns DOUBLE,
    ratio DOUBLE,
    ratio_low DOUBLE,
    ratio_high DOUBLE,
    samples INTEGER NOT NULL,
    verdict VARCHAR NOT NULL
);

CREATE TABLE plan_deviation (
    plan_id BIGINT NOT NULL,
    candidate VARCHAR NOT NULL,
    distribution VARCHAR NOT NULL,
    output VARCHAR NOT NULL,
    max_absolute DOUBLE NOT NULL,
    max_relative DOUBLE NOT NULL,
    tolerance DOUBLE NOT NULL,
    within BOOLEAN NOT NULL
);
