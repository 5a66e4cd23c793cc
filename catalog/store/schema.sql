-- The catalog: what tensolog knows, as relations. One statement creates one table; the comments
-- below each table are stored in the database and shown by `tensolog catalog`.
-- When anything changes here, add a migration in migrations.py, which also gives the version.

CREATE TABLE catalog_version (version INTEGER NOT NULL, tensolog VARCHAR NOT NULL, created_at TIMESTAMP NOT NULL);
COMMENT ON TABLE catalog_version IS 'One row a migration applied; the largest version is the schema in force.';
COMMENT ON COLUMN catalog_version.version IS 'Schema version reached.';
COMMENT ON COLUMN catalog_version.tensolog IS 'tensolog release that made or migrated the file.';
COMMENT ON COLUMN catalog_version.created_at IS 'When, in UTC.';

CREATE TABLE catalog_property (name VARCHAR PRIMARY KEY, value VARCHAR NOT NULL);
COMMENT ON TABLE catalog_property IS 'What was loaded into the catalog, and from which release.';
COMMENT ON COLUMN catalog_property.name IS 'Property, as operators.';
COMMENT ON COLUMN catalog_property.value IS 'Its state, as the onnx release and the hash of classes.ops.';

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
COMMENT ON TABLE model IS 'One row a model that was read or made.';
COMMENT ON COLUMN model.model_id IS 'Key.';
COMMENT ON COLUMN model.name IS 'File stem, graph name or the name given by the caller.';
COMMENT ON COLUMN model.source_path IS 'Absolute path of the file read; NULL for models from memory.';
COMMENT ON COLUMN model.origin IS 'imported: read as it came. optimized: made from parent_model_id.';
COMMENT ON COLUMN model.parent_model_id IS 'The model this one was made from.';
COMMENT ON COLUMN model.ir_version IS 'ModelProto.ir_version; NULL where the field is absent, here and in the next columns.';
COMMENT ON COLUMN model.producer_name IS 'ModelProto.producer_name.';
COMMENT ON COLUMN model.producer_version IS 'ModelProto.producer_version.';
COMMENT ON COLUMN model.domain IS 'ModelProto.domain.';
COMMENT ON COLUMN model.model_version IS 'ModelProto.model_version.';
COMMENT ON COLUMN model.doc_string IS 'ModelProto.doc_string.';
COMMENT ON COLUMN model.rest IS 'Serialized ModelProto of the fields without a column (training_info, configuration); NULL if none.';
COMMENT ON COLUMN model.size_bytes IS 'Size of the model with its constants.';
COMMENT ON COLUMN model.created_at IS 'When it was stored, in UTC.';

CREATE TABLE model_opset (model_id BIGINT NOT NULL, position INTEGER NOT NULL, domain VARCHAR, version BIGINT, rest BLOB);
COMMENT ON TABLE model_opset IS 'Operator sets that a model (position counts from 0) imports.';
COMMENT ON COLUMN model_opset.model_id IS 'Model.';
COMMENT ON COLUMN model_opset.position IS 'Order in the file.';
COMMENT ON COLUMN model_opset.domain IS 'Operator domain; NULL or empty is ai.onnx.';
COMMENT ON COLUMN model_opset.version IS 'Operator set version.';
COMMENT ON COLUMN model_opset.rest IS 'Serialized remainder of the entry; NULL if none.';
CREATE TABLE model_metadata (model_id BIGINT NOT NULL, position INTEGER NOT NULL, key VARCHAR, value VARCHAR, rest BLOB);
COMMENT ON TABLE model_metadata IS 'ModelProto.metadata_props.';
COMMENT ON COLUMN model_metadata.model_id IS 'Model.';
COMMENT ON COLUMN model_metadata.position IS 'Order in the file.';
COMMENT ON COLUMN model_metadata.key IS 'Key.';
COMMENT ON COLUMN model_metadata.value IS 'Value.';
COMMENT ON COLUMN model_metadata.rest IS 'Serialized remainder of the entry; NULL if none.';

CREATE SEQUENCE graph_sequence;
CREATE TABLE graph (
    graph_id BIGINT PRIMARY KEY DEFAULT nextval('graph_sequence'),
    model_id BIGINT NOT NULL,
    kind VARCHAR NOT NULL CHECK (kind IN ('main', 'subgraph', 'function')),
    position INTEGER NOT NULL,
    parent_node_id BIGINT,
    attribute_position INTEGER,
    name VARCHAR,
    domain VARCHAR,
    overload VARCHAR,
    doc_string VARCHAR,
    rest BLOB
);
COMMENT ON TABLE graph IS 'One row a graph: the main graph, the subgraphs held by attributes, the bodies of model functions.';
COMMENT ON COLUMN graph.graph_id IS 'Key.';
COMMENT ON COLUMN graph.model_id IS 'Model.';
COMMENT ON COLUMN graph.kind IS 'main, subgraph (body of If, Loop, Scan, ...) or function (FunctionProto).';
COMMENT ON COLUMN graph.position IS 'Order among the functions, or within the attribute that holds the subgraph.';
COMMENT ON COLUMN graph.parent_node_id IS 'Node whose attribute holds this subgraph; NULL for main graphs and functions.';
COMMENT ON COLUMN graph.attribute_position IS 'Which attribute of parent_node_id holds this subgraph.';
COMMENT ON COLUMN graph.name IS 'Graph or function name.';
COMMENT ON COLUMN graph.domain IS 'Domain of a function; NULL otherwise.';
COMMENT ON COLUMN graph.overload IS 'Overload of a function; NULL otherwise.';
COMMENT ON COLUMN graph.doc_string IS 'Documentation string.';
COMMENT ON COLUMN graph.rest IS 'Serialized GraphProto or FunctionProto of the fields without a column (metadata_props, quantization_annotation; opset_import and attributes of a function); NULL if none.';

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
COMMENT ON TABLE value IS 'One row a tensor (or sequence, optional, map) name in a graph; names are unique within a graph.';
COMMENT ON COLUMN value.value_id IS 'Key.';
COMMENT ON COLUMN value.graph_id IS 'Graph that defines the name.';
COMMENT ON COLUMN value.name IS 'Name.';
COMMENT ON COLUMN value.dtype IS 'Element type as NumPy writes it (float32, int64, bfloat16, float8_e4m3fn, int4, string); NULL if unknown or not a tensor.';
COMMENT ON COLUMN value.rank IS 'Number of dimensions; NULL if unknown or not a tensor.';
COMMENT ON COLUMN value.type_source IS 'declared: the model says so. inferred: shape inference found it. NULL: unknown.';
COMMENT ON COLUMN value.type IS 'Serialized TypeProto, declared or inferred; NULL if unknown.';

CREATE TABLE dimension (value_id BIGINT NOT NULL, axis INTEGER NOT NULL, size BIGINT, symbol VARCHAR);
COMMENT ON TABLE dimension IS 'Dimensions of tensor values of known rank.';
COMMENT ON COLUMN dimension.value_id IS 'Value.';
COMMENT ON COLUMN dimension.axis IS 'Axis, from 0.';
COMMENT ON COLUMN dimension.size IS 'Size; NULL if not known.';
COMMENT ON COLUMN dimension.symbol IS 'Name of a symbolic dimension, as batch; NULL otherwise.';

CREATE TABLE graph_value (
    graph_id BIGINT NOT NULL,
    role VARCHAR NOT NULL CHECK (role IN ('input', 'output', 'value_info')),
    position INTEGER NOT NULL,
    value_id BIGINT NOT NULL,
    rest BLOB
);
COMMENT ON TABLE graph_value IS 'Inputs, outputs and declared types of a graph, in the order of the file.';
COMMENT ON COLUMN graph_value.graph_id IS 'Graph.';
COMMENT ON COLUMN graph_value.role IS 'input, output or value_info.';
COMMENT ON COLUMN graph_value.position IS 'Order in the file, per role.';
COMMENT ON COLUMN graph_value.value_id IS 'Value declared.';
COMMENT ON COLUMN graph_value.rest IS 'Serialized ValueInfoProto without its name; NULL where a function lists a name only.';

CREATE TABLE constant (
    constant_hash VARCHAR PRIMARY KEY,
    dtype VARCHAR NOT NULL,
    shape BIGINT[] NOT NULL,
    size_bytes BIGINT NOT NULL,
    data BLOB,
    location VARCHAR,
    location_offset BIGINT
);
COMMENT ON TABLE constant IS 'Tensors by content: equal tensors share one row.';
COMMENT ON COLUMN constant.constant_hash IS 'SHA-256, in hexadecimal, of dtype, shape and little-endian bytes.';
COMMENT ON COLUMN constant.dtype IS 'Element type as in value.dtype.';
COMMENT ON COLUMN constant.shape IS 'Dimensions.';
COMMENT ON COLUMN constant.size_bytes IS 'Size of the bytes, 4-bit and smaller types packed.';
COMMENT ON COLUMN constant.data IS 'The bytes, little-endian; for strings each as an 8-byte length and the bytes. NULL where location is given.';
COMMENT ON COLUMN constant.location IS 'Absolute path of the file in which the bytes lie; NULL where data is given.';
COMMENT ON COLUMN constant.location_offset IS 'Where in location the bytes start.';

CREATE TABLE initializer (
    graph_id BIGINT NOT NULL,
    kind VARCHAR NOT NULL CHECK (kind IN ('dense', 'sparse')),
    position INTEGER NOT NULL,
    value_id BIGINT NOT NULL,
    constant_hash VARCHAR,
    rest BLOB
);
COMMENT ON TABLE initializer IS 'Constants that a graph binds to names.';
COMMENT ON COLUMN initializer.graph_id IS 'Graph.';
COMMENT ON COLUMN initializer.kind IS 'dense (TensorProto) or sparse (SparseTensorProto).';
COMMENT ON COLUMN initializer.position IS 'Order in the file, per kind.';
COMMENT ON COLUMN initializer.value_id IS 'Value bound.';
COMMENT ON COLUMN initializer.constant_hash IS 'The tensor; for sparse ones its values.';
COMMENT ON COLUMN initializer.rest IS 'Serialized proto without its bytes, which stand in it as references to constants.';

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
COMMENT ON TABLE node IS 'One row an operator call.';
COMMENT ON COLUMN node.node_id IS 'Key.';
COMMENT ON COLUMN node.graph_id IS 'Graph.';
COMMENT ON COLUMN node.position IS 'Order in the file.';
COMMENT ON COLUMN node.op_type IS 'Operator.';
COMMENT ON COLUMN node.domain IS 'Operator domain; NULL or empty is ai.onnx.';
COMMENT ON COLUMN node.overload IS 'Overload of a model function.';
COMMENT ON COLUMN node.name IS 'Node name; may be absent, empty or repeated.';
COMMENT ON COLUMN node.doc_string IS 'Documentation string.';
COMMENT ON COLUMN node.rest IS 'Serialized NodeProto of the fields without a column (metadata_props, device_configurations); NULL if none.';

CREATE TABLE node_input (node_id BIGINT NOT NULL, position INTEGER NOT NULL, name VARCHAR NOT NULL, value_id BIGINT);
COMMENT ON TABLE node_input IS 'What a node reads.';
COMMENT ON COLUMN node_input.node_id IS 'Node.';
COMMENT ON COLUMN node_input.position IS 'Operand position.';
COMMENT ON COLUMN node_input.name IS 'Name as written; empty for an absent optional operand.';
COMMENT ON COLUMN node_input.value_id IS 'Value meant, in this graph or one around it; NULL for an absent operand.';
CREATE TABLE node_output (node_id BIGINT NOT NULL, position INTEGER NOT NULL, name VARCHAR NOT NULL, value_id BIGINT);
COMMENT ON TABLE node_output IS 'What a node writes.';
COMMENT ON COLUMN node_output.node_id IS 'Node.';
COMMENT ON COLUMN node_output.position IS 'Result position.';
COMMENT ON COLUMN node_output.name IS 'Name as written; empty for a result not wanted.';
COMMENT ON COLUMN node_output.value_id IS 'Value defined; NULL for a result not wanted.';

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
COMMENT ON TABLE attribute IS 'Attributes of nodes.';
COMMENT ON COLUMN attribute.node_id IS 'Node.';
COMMENT ON COLUMN attribute.position IS 'Order in the file.';
COMMENT ON COLUMN attribute.name IS 'Name.';
COMMENT ON COLUMN attribute.type IS 'AttributeProto type: INT, FLOATS, GRAPH, ... .';
COMMENT ON COLUMN attribute.value IS 'Canonical text: 3, 0.5, [1, 2], a string as it is; NULL for tensors and graphs.';
COMMENT ON COLUMN attribute.int_value IS 'Value of an INT.';
COMMENT ON COLUMN attribute.float_value IS 'Value of a FLOAT.';
COMMENT ON COLUMN attribute.constant_hash IS 'Value of a TENSOR.';
COMMENT ON COLUMN attribute.subgraph_id IS 'Value of a GRAPH; the first one of GRAPHS.';
COMMENT ON COLUMN attribute.rest IS 'Serialized AttributeProto where the columns do not say all, without graphs and tensor bytes; NULL otherwise.';

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
COMMENT ON TABLE operator IS 'Operators of ONNX, one row a version of the specification.';
COMMENT ON COLUMN operator.domain IS 'Operator domain; empty is ai.onnx.';
COMMENT ON COLUMN operator.op_type IS 'Operator.';
COMMENT ON COLUMN operator.since_version IS 'Operator set version that brought this specification.';
COMMENT ON COLUMN operator.class IS 'elementwise, contraction, reduction, movement, window, normalization, control, generator or opaque.';
COMMENT ON COLUMN operator.commutative IS 'Whether its operands may be permuted.';
COMMENT ON COLUMN operator.deterministic IS 'Whether equal operands give equal results.';
COMMENT ON COLUMN operator.min_inputs IS 'Fewest operands.';
COMMENT ON COLUMN operator.max_inputs IS 'Most operands; 2147483647 if any number.';
COMMENT ON COLUMN operator.min_outputs IS 'Fewest results.';
COMMENT ON COLUMN operator.max_outputs IS 'Most results; 2147483647 if any number.';
COMMENT ON COLUMN operator.deprecated IS 'Whether this version withdraws the operator.';

CREATE TABLE operator_attribute (
    domain VARCHAR NOT NULL,
    op_type VARCHAR NOT NULL,
    since_version INTEGER NOT NULL,
    name VARCHAR NOT NULL,
    type VARCHAR NOT NULL,
    required BOOLEAN NOT NULL,
    default_value VARCHAR
);
COMMENT ON TABLE operator_attribute IS 'Attributes that operators take.';
COMMENT ON COLUMN operator_attribute.domain IS 'Operator domain; empty is ai.onnx.';
COMMENT ON COLUMN operator_attribute.op_type IS 'Operator.';
COMMENT ON COLUMN operator_attribute.since_version IS 'Operator set version of the specification.';
COMMENT ON COLUMN operator_attribute.name IS 'Attribute.';
COMMENT ON COLUMN operator_attribute.type IS 'AttributeProto type.';
COMMENT ON COLUMN operator_attribute.required IS 'Whether it must be given.';
COMMENT ON COLUMN operator_attribute.default_value IS 'Default as canonical text, as in attribute.value; NULL if none.';

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
    measured_at TIMESTAMP,
    cluster_hash VARCHAR,
    kind VARCHAR,
    node VARCHAR,
    flops_per_s DOUBLE,
    memory_bytes_per_s DOUBLE,
    launch_s DOUBLE,
    machine VARCHAR,
    stage_s DOUBLE,
    contention_s_per_byte DOUBLE,
    address VARCHAR
);
COMMENT ON TABLE device IS 'Machines that measurements were taken on, and the devices of clusters.';
COMMENT ON COLUMN device.device_id IS 'Key.';
COMMENT ON COLUMN device.fingerprint IS 'What tells machines apart.';
COMMENT ON COLUMN device.name IS 'Name of the processor, or of the device in its cluster.';
COMMENT ON COLUMN device.cores IS 'Physical cores usable.';
COMMENT ON COLUMN device.memory_bytes IS 'Main memory.';
COMMENT ON COLUMN device.instruction_set IS 'Vector instructions, as avx512, or what else tells the processors of a kind apart.';
COMMENT ON COLUMN device.bandwidth_bytes_per_s IS 'Measured memory bandwidth.';
COMMENT ON COLUMN device.peak_flops_per_s IS 'Measured float32 peak of one thread.';
COMMENT ON COLUMN device.measured_at IS 'When bandwidth and peak were measured, in UTC.';
COMMENT ON COLUMN device.cluster_hash IS 'Cluster that it is a device of, here and in the next columns; NULL for a machine of its own.';
COMMENT ON COLUMN device.kind IS 'Kind, as cpu or gpu.';
COMMENT ON COLUMN device.node IS 'Computer that it is in; empty if it is said of none.';
COMMENT ON COLUMN device.flops_per_s IS 'Peak in float32 of all its cores together.';
COMMENT ON COLUMN device.memory_bytes_per_s IS 'Bandwidth of its memory.';
COMMENT ON COLUMN device.launch_s IS 'What starting an operator takes.';
COMMENT ON COLUMN device.machine IS 'Fingerprint of the machine whose measured kernels hold for it; NULL if none does.';
COMMENT ON COLUMN device.stage_s IS 'What running a stage of a plan takes it beside the operators; NULL or 0 where each operator is started by itself.';
COMMENT ON COLUMN device.contention_s_per_byte IS 'What a byte of weights takes longer while the other devices of its node compute as well.';
COMMENT ON COLUMN device.address IS 'Address of the worker of the cluster''s engine that it is; NULL if it is none.';

CREATE TABLE link (
    cluster_hash VARCHAR NOT NULL,
    source VARCHAR NOT NULL,
    target VARCHAR NOT NULL,
    latency_s DOUBLE NOT NULL,
    bytes_per_s DOUBLE NOT NULL,
    wire VARCHAR NOT NULL
);
COMMENT ON TABLE link IS 'How fast tensors get from one device of a cluster to another.';
COMMENT ON COLUMN link.cluster_hash IS 'Cluster.';
COMMENT ON COLUMN link.source IS 'Name of the device that sends.';
COMMENT ON COLUMN link.target IS 'Name of the device that receives.';
COMMENT ON COLUMN link.latency_s IS 'What a transfer takes besides its bytes.';
COMMENT ON COLUMN link.bytes_per_s IS 'Bandwidth.';
COMMENT ON COLUMN link.wire IS 'Transfers over one wire take turns; empty: that of all that the source sends.';

CREATE TABLE cluster (
    cluster_hash VARCHAR PRIMARY KEY,
    name VARCHAR NOT NULL,
    devices INTEGER NOT NULL,
    stored_at TIMESTAMP NOT NULL,
    scheduler VARCHAR
);
COMMENT ON TABLE cluster IS 'Descriptions of devices and links that plans are made for.';
COMMENT ON COLUMN cluster.cluster_hash IS 'Key: SHA-256, in hexadecimal, of all that is said of it.';
COMMENT ON COLUMN cluster.name IS 'Name.';
COMMENT ON COLUMN cluster.devices IS 'Number of its devices.';
COMMENT ON COLUMN cluster.stored_at IS 'When it was stored, in UTC.';
COMMENT ON COLUMN cluster.scheduler IS 'Address of the engine''s scheduler, where its devices are workers; NULL if they are none.';

CREATE TABLE kernel (
    kernel_hash VARCHAR PRIMARY KEY,
    domain VARCHAR NOT NULL,
    op_type VARCHAR NOT NULL,
    opset INTEGER NOT NULL,
    attributes VARCHAR NOT NULL,
    inputs VARCHAR NOT NULL,
    outputs VARCHAR NOT NULL
);
COMMENT ON TABLE kernel IS 'What is measured: one operator call with its attributes, shapes and types.';
COMMENT ON COLUMN kernel.kernel_hash IS 'Hash of the other columns.';
COMMENT ON COLUMN kernel.domain IS 'Operator domain.';
COMMENT ON COLUMN kernel.op_type IS 'Operator.';
COMMENT ON COLUMN kernel.opset IS 'Operator set version.';
COMMENT ON COLUMN kernel.attributes IS 'Attributes as canonical text.';
COMMENT ON COLUMN kernel.inputs IS 'Types and shapes of the operands as canonical text.';
COMMENT ON COLUMN kernel.outputs IS 'Results asked for, as canonical text.';

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
COMMENT ON TABLE measurement IS 'Measured times of kernels.';
COMMENT ON COLUMN measurement.measurement_id IS 'Key.';
COMMENT ON COLUMN measurement.device_id IS 'Machine.';
COMMENT ON COLUMN measurement.kernel_hash IS 'Kernel.';
COMMENT ON COLUMN measurement.runtime IS 'Runtime, as onnxruntime.';
COMMENT ON COLUMN measurement.runtime_version IS 'Its release.';
COMMENT ON COLUMN measurement.configuration IS 'Optimization level of the runtime.';
COMMENT ON COLUMN measurement.threads IS 'Threads used.';
COMMENT ON COLUMN measurement.median_ns IS 'Median time of a call.';
COMMENT ON COLUMN measurement.spread_ns IS 'Spread of the time of a call: 1.4826 median absolute deviations.';
COMMENT ON COLUMN measurement.minimum_ns IS 'Least time of a call.';
COMMENT ON COLUMN measurement.samples IS 'Calls timed.';
COMMENT ON COLUMN measurement.failure IS 'Why it could not be measured; NULL if it could.';
COMMENT ON COLUMN measurement.measured_at IS 'When, in UTC.';

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

CREATE TABLE rule_node (
    rule_hash VARCHAR NOT NULL,
    side VARCHAR NOT NULL CHECK (side IN ('match', 'rewrite')),
    position INTEGER NOT NULL,
    op_type VARCHAR NOT NULL,
    attributes VARCHAR NOT NULL
);
COMMENT ON TABLE rule_node IS 'Operator calls of the patterns of a rule.';
COMMENT ON COLUMN rule_node.rule_hash IS 'Rule.';
COMMENT ON COLUMN rule_node.side IS 'match or rewrite.';
COMMENT ON COLUMN rule_node.position IS 'Order in the pattern.';
COMMENT ON COLUMN rule_node.op_type IS 'Operator.';
COMMENT ON COLUMN rule_node.attributes IS 'Attribute pattern as written.';

CREATE TABLE rule_edge (
    rule_hash VARCHAR NOT NULL,
    side VARCHAR NOT NULL CHECK (side IN ('match', 'rewrite')),
    position INTEGER NOT NULL,
    direction VARCHAR NOT NULL CHECK (direction IN ('input', 'output')),
    slot INTEGER NOT NULL,
    value VARCHAR NOT NULL
);
COMMENT ON TABLE rule_edge IS 'Operands and results of the operator calls of a rule.';
COMMENT ON COLUMN rule_edge.rule_hash IS 'Rule.';
COMMENT ON COLUMN rule_edge.side IS 'match or rewrite.';
COMMENT ON COLUMN rule_edge.position IS 'Operator call, as in rule_node.';
COMMENT ON COLUMN rule_edge.direction IS 'input or output.';
COMMENT ON COLUMN rule_edge.slot IS 'Operand or result position.';
COMMENT ON COLUMN rule_edge.value IS 'Name in the pattern.';

CREATE TABLE rule_condition (rule_hash VARCHAR NOT NULL, position INTEGER NOT NULL, condition VARCHAR NOT NULL);
COMMENT ON TABLE rule_condition IS 'Conditions of a rule.';
COMMENT ON COLUMN rule_condition.rule_hash IS 'Rule.';
COMMENT ON COLUMN rule_condition.position IS 'Order in the rule.';
COMMENT ON COLUMN rule_condition.condition IS 'Condition as written.';
CREATE TABLE rule_source (rule_hash VARCHAR NOT NULL, position INTEGER NOT NULL, source VARCHAR NOT NULL);
COMMENT ON TABLE rule_source IS 'Where a rule comes from.';
COMMENT ON COLUMN rule_source.rule_hash IS 'Rule.';
COMMENT ON COLUMN rule_source.position IS 'Order in the rule.';
COMMENT ON COLUMN rule_source.source IS 'Citation.';

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

-- --------------------------------------------------------------------------------- generation

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
COMMENT ON TABLE plan IS 'One row an optimization run.';
COMMENT ON COLUMN plan.plan_id IS 'Key.';
COMMENT ON COLUMN plan.model_id IS 'Model optimized.';
COMMENT ON COLUMN plan.result_model_id IS 'Model made; NULL if none was stored.';
COMMENT ON COLUMN plan.device_id IS 'Machine.';
COMMENT ON COLUMN plan.target IS 'Target, as onnxruntime-cpu; what auto stood for.';
COMMENT ON COLUMN plan.threads IS 'Threads.';
COMMENT ON COLUMN plan.options IS 'Options of the run as JSON.';
COMMENT ON COLUMN plan.chosen IS 'Candidate kept.';
COMMENT ON COLUMN plan.created_at IS 'When, in UTC.';

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
COMMENT ON TABLE plan_step IS 'Rewrites of a plan, in order.';
COMMENT ON COLUMN plan_step.plan_id IS 'Plan.';
COMMENT ON COLUMN plan_step.position IS 'Order.';
COMMENT ON COLUMN plan_step.rule IS 'Rule applied.';
COMMENT ON COLUMN plan_step.nodes IS 'Names of the nodes matched.';
COMMENT ON COLUMN plan_step.removed IS 'Nodes removed.';
COMMENT ON COLUMN plan_step.added IS 'Nodes added.';
COMMENT ON COLUMN plan_step.cost_before_ns IS 'Predicted cost before.';
COMMENT ON COLUMN plan_step.cost_after_ns IS 'Predicted cost after.';
COMMENT ON COLUMN plan_step.accepted IS 'Whether the step was kept.';
COMMENT ON COLUMN plan_step.reason IS 'Why, or why not.';

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
COMMENT ON TABLE plan_candidate IS 'Models that were timed end to end.';
COMMENT ON COLUMN plan_candidate.plan_id IS 'Plan.';
COMMENT ON COLUMN plan_candidate.candidate IS 'Name.';
COMMENT ON COLUMN plan_candidate.nodes IS 'Nodes in its file, of the main graph; those of the operator Constant count.';
COMMENT ON COLUMN plan_candidate.predicted_ns IS 'Sum of the costs of its parts.';
COMMENT ON COLUMN plan_candidate.median_ns IS 'Measured median latency.';
COMMENT ON COLUMN plan_candidate.spread_ns IS 'Spread of the latency: 1.4826 median absolute deviations.';
COMMENT ON COLUMN plan_candidate.ratio IS 'Time of the candidate over that of the original, paired by round: below 1 is faster.';
COMMENT ON COLUMN plan_candidate.ratio_low IS 'Lower end of the 95 % interval of ratio.';
COMMENT ON COLUMN plan_candidate.ratio_high IS 'Upper end of the 95 % interval of ratio.';
COMMENT ON COLUMN plan_candidate.samples IS 'Rounds.';
COMMENT ON COLUMN plan_candidate.verdict IS 'Kept, or why not.';

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

CREATE TABLE plan_region (
    plan_id BIGINT NOT NULL,
    region INTEGER NOT NULL,
    candidate VARCHAR NOT NULL,
    sort VARCHAR NOT NULL,
    kernel VARCHAR NOT NULL,
    computes VARCHAR NOT NULL,
    nodes VARCHAR[] NOT NULL,
    outcome VARCHAR NOT NULL CHECK (outcome IN ('chosen', 'plan lost', 'outdone', 'no gain alone', 'no gain in the model', 'not compiled', 'not measured')),
    reason VARCHAR NOT NULL,
    cost_before_ns DOUBLE,
    cost_after_ns DOUBLE
);
COMMENT ON TABLE plan_region IS 'Regions of a model that generated kernels could stand for, and what became of each.';
COMMENT ON COLUMN plan_region.plan_id IS 'Plan.';
COMMENT ON COLUMN plan_region.region IS 'Number within the plan.';
COMMENT ON COLUMN plan_region.candidate IS 'Candidate in whose graph it was found: the model as it is, or as rules have changed it.';
COMMENT ON COLUMN plan_region.sort IS 'Sort of kernel: cells, product, convolution, attention, rows, steps, integers, table or normalization.';
COMMENT ON COLUMN plan_region.kernel IS 'Name of the kernel: equal kernels have equal names.';
COMMENT ON COLUMN plan_region.computes IS 'What it computes: what each of its nodes gives, by the names of values.';
COMMENT ON COLUMN plan_region.nodes IS 'Names of its nodes in the model.';
COMMENT ON COLUMN plan_region.outcome IS 'chosen: in the winner. plan lost: chosen for a plan that was not the fastest. outdone: by another kernel for some of its nodes. no gain alone, no gain in the model: a race refused it. not compiled, not measured.';
COMMENT ON COLUMN plan_region.reason IS 'The same in words, with what was measured.';
COMMENT ON COLUMN plan_region.cost_before_ns IS 'Time of its operators alone; NULL if not measured.';
COMMENT ON COLUMN plan_region.cost_after_ns IS 'Time of the kernel alone.';

CREATE TABLE plan_region_bound (
    plan_id BIGINT NOT NULL,
    region INTEGER NOT NULL,
    node VARCHAR NOT NULL,
    literal VARCHAR NOT NULL,
    clause VARCHAR NOT NULL,
    reason VARCHAR NOT NULL
);
COMMENT ON TABLE plan_region_bound IS 'Nodes beside a region that no kernel may compute with it, and the clause that says why.';
COMMENT ON COLUMN plan_region_bound.plan_id IS 'Plan.';
COMMENT ON COLUMN plan_region_bound.region IS 'Region, one for each kernel.';
COMMENT ON COLUMN plan_region_bound.node IS 'Name of the node.';
COMMENT ON COLUMN plan_region_bound.literal IS 'Literal of the clause that fails.';
COMMENT ON COLUMN plan_region_bound.clause IS 'Clause of regions.dl that comes nearest to having the node in the region.';
COMMENT ON COLUMN plan_region_bound.reason IS 'What keeps it out, in words.';

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

CREATE TABLE deployment (
    deployment_hash VARCHAR PRIMARY KEY,
    model VARCHAR NOT NULL,
    folder VARCHAR NOT NULL,
    goal VARCHAR NOT NULL,
    limits VARCHAR[] NOT NULL,
    variant VARCHAR NOT NULL,
    batch_is_free BOOLEAN NOT NULL,
    delay_ms DOUBLE NOT NULL,
    machine VARCHAR NOT NULL,
    cores INTEGER NOT NULL,
    measuring_s DOUBLE NOT NULL,
    complete BOOLEAN NOT NULL,
    placement_hash VARCHAR,
    deployed_at TIMESTAMP NOT NULL
);
COMMENT ON TABLE deployment IS 'How models are served, as `tensolog deploy` chose it; deployment_setting has what was measured, deployment_reason says why.';
COMMENT ON COLUMN deployment.deployment_hash IS 'Key: SHA-256, in hexadecimal, of the plan.';
COMMENT ON COLUMN deployment.model IS 'Path of the model that was deployed.';
COMMENT ON COLUMN deployment.folder IS 'Path that the deployment was written to.';
COMMENT ON COLUMN deployment.goal IS 'throughput or latency.';
COMMENT ON COLUMN deployment.limits IS 'Bounds that settings had to keep, as they were given.';
COMMENT ON COLUMN deployment.variant IS 'Which model is served: original or optimized.';
COMMENT ON COLUMN deployment.batch_is_free IS 'Whether requests may be joined.';
COMMENT ON COLUMN deployment.delay_ms IS 'How long a request waits at most for others to join its batch.';
COMMENT ON COLUMN deployment.machine IS 'Fingerprint of the machine that it was measured on.';
COMMENT ON COLUMN deployment.cores IS 'Cores that could be used.';
COMMENT ON COLUMN deployment.measuring_s IS 'What choosing took.';
COMMENT ON COLUMN deployment.complete IS 'Whether the race was decided before the budget ended.';
COMMENT ON COLUMN deployment.placement_hash IS 'Plan by which the model is divided, in the table placement; NULL where it is not, or not by a plan of the search.';
COMMENT ON COLUMN deployment.deployed_at IS 'When it was stored, in UTC.';

CREATE TABLE deployment_setting (
    deployment_hash VARCHAR NOT NULL,
    instances INTEGER NOT NULL,
    threads INTEGER NOT NULL,
    batch INTEGER NOT NULL,
    division VARCHAR NOT NULL,
    role VARCHAR NOT NULL,
    rows_per_s DOUBLE NOT NULL,
    p50_ms DOUBLE NOT NULL,
    p90_ms DOUBLE NOT NULL,
    p99_ms DOUBLE NOT NULL,
    runs INTEGER NOT NULL,
    memory_bytes BIGINT NOT NULL,
    why_not VARCHAR NOT NULL
);
COMMENT ON TABLE deployment_setting IS 'Settings that were measured for deployments, with all their instances busy.';
COMMENT ON COLUMN deployment_setting.deployment_hash IS 'Deployment.';
COMMENT ON COLUMN deployment_setting.instances IS 'Copies of the model.';
COMMENT ON COLUMN deployment_setting.threads IS 'Threads of each, or of each process of a divided one.';
COMMENT ON COLUMN deployment_setting.batch IS 'Rows of a batch.';
COMMENT ON COLUMN deployment_setting.division IS 'Plan by which each instance is divided among processes; empty if it is not.';
COMMENT ON COLUMN deployment_setting.role IS 'chosen; baseline, one instance that it has to beat; or rival.';
COMMENT ON COLUMN deployment_setting.rows_per_s IS 'Rows a second of all instances.';
COMMENT ON COLUMN deployment_setting.p50_ms IS 'Median time of a batch in an instance.';
COMMENT ON COLUMN deployment_setting.p90_ms IS 'Time that nine of ten batches keep within.';
COMMENT ON COLUMN deployment_setting.p99_ms IS 'Time that 99 of 100 batches keep within.';
COMMENT ON COLUMN deployment_setting.runs IS 'Batches that were timed.';
COMMENT ON COLUMN deployment_setting.memory_bytes IS 'Resident memory of all instances.';
COMMENT ON COLUMN deployment_setting.why_not IS 'Why it was not chosen; empty for what was.';

CREATE TABLE deployment_reason (
    deployment_hash VARCHAR NOT NULL,
    position INTEGER NOT NULL,
    reason VARCHAR NOT NULL
);
COMMENT ON TABLE deployment_reason IS 'Why deployments are as they are, in words.';
COMMENT ON COLUMN deployment_reason.deployment_hash IS 'Deployment.';
COMMENT ON COLUMN deployment_reason.position IS 'Order, from 0.';
COMMENT ON COLUMN deployment_reason.reason IS 'A reason.';

-- ------------------------------------------------------------------------------------- graphs with timed configurations

CREATE TABLE cost_graph (
    graph_hash VARCHAR PRIMARY KEY,
    path VARCHAR NOT NULL,
    collection VARCHAR NOT NULL CHECK (collection IN ('layout', 'tile')),
    arrays VARCHAR NOT NULL,
    splits BIGINT[],
    stored_at TIMESTAMP NOT NULL
);
COMMENT ON TABLE cost_graph IS 'Graphs whose configurations were timed, as files of TpuGraphs have them.';
COMMENT ON COLUMN cost_graph.graph_hash IS 'Key: SHA-256, in hexadecimal, of path and arrays.';
COMMENT ON COLUMN cost_graph.path IS 'Where its file lies in its data set.';
COMMENT ON COLUMN cost_graph.collection IS 'layout: nodes are configured. tile: a kernel as a whole is.';
COMMENT ON COLUMN cost_graph.arrays IS 'Element type and shape of each array of its file, as JSON.';
COMMENT ON COLUMN cost_graph.splits IS 'Nodes at which its parts begin, and the end of the last; NULL if nothing is said of it.';
COMMENT ON COLUMN cost_graph.stored_at IS 'When, in UTC.';

CREATE TABLE cost_graph_node (
    graph_hash VARCHAR NOT NULL,
    position INTEGER NOT NULL,
    opcode INTEGER NOT NULL,
    features FLOAT[] NOT NULL,
    configurable INTEGER
);
COMMENT ON TABLE cost_graph_node IS 'Nodes of graphs with timed configurations.';
COMMENT ON COLUMN cost_graph_node.graph_hash IS 'Graph.';
COMMENT ON COLUMN cost_graph_node.position IS 'Number of the node.';
COMMENT ON COLUMN cost_graph_node.opcode IS 'Number of its operator in its data set.';
COMMENT ON COLUMN cost_graph_node.features IS 'Its features, in the order of its data set.';
COMMENT ON COLUMN cost_graph_node.configurable IS 'Its place in the features of a configuration; NULL if it has none.';

CREATE TABLE cost_graph_edge (
    graph_hash VARCHAR NOT NULL,
    position INTEGER NOT NULL,
    consumer INTEGER NOT NULL,
    producer INTEGER NOT NULL
);
COMMENT ON TABLE cost_graph_edge IS 'What nodes of graphs with timed configurations read.';
COMMENT ON COLUMN cost_graph_edge.graph_hash IS 'Graph.';
COMMENT ON COLUMN cost_graph_edge.position IS 'Order in its file.';
COMMENT ON COLUMN cost_graph_edge.consumer IS 'Node that reads.';
COMMENT ON COLUMN cost_graph_edge.producer IS 'Node that is read.';

CREATE TABLE cost_graph_configuration (
    graph_hash VARCHAR NOT NULL,
    position INTEGER NOT NULL,
    features FLOAT[] NOT NULL,
    runtime_ns BIGINT NOT NULL,
    normalizer_ns BIGINT
);
COMMENT ON TABLE cost_graph_configuration IS 'Timed configurations of graphs.';
COMMENT ON COLUMN cost_graph_configuration.graph_hash IS 'Graph.';
COMMENT ON COLUMN cost_graph_configuration.position IS 'Order in its file.';
COMMENT ON COLUMN cost_graph_configuration.features IS 'Its features; of a layout those of each configurable node, one after the other.';
COMMENT ON COLUMN cost_graph_configuration.runtime_ns IS 'Measured time.';
COMMENT ON COLUMN cost_graph_configuration.normalizer_ns IS 'Time of the default configuration, for kernels; NULL for layouts.';

-- ------------------------------------------------------------------ configurations of kernels

CREATE TABLE processor (
    device_id BIGINT NOT NULL,
    level VARCHAR NOT NULL,
    registers INTEGER NOT NULL,
    lanes INTEGER NOT NULL,
    first_cache_bytes BIGINT NOT NULL,
    second_cache_bytes BIGINT NOT NULL
);
COMMENT ON TABLE processor IS 'What generated kernels are tiled for: registers and caches of one core.';
COMMENT ON COLUMN processor.device_id IS 'Machine.';
COMMENT ON COLUMN processor.level IS 'Instructions that kernels are compiled for: avx512, avx2 or plain.';
COMMENT ON COLUMN processor.registers IS 'Vector registers.';
COMMENT ON COLUMN processor.lanes IS 'Numbers of float32 in each.';
COMMENT ON COLUMN processor.first_cache_bytes IS 'First cache for data.';
COMMENT ON COLUMN processor.second_cache_bytes IS 'Second cache.';

CREATE SEQUENCE kernel_configuration_sequence;
CREATE TABLE kernel_configuration (
    kernel_configuration_id BIGINT PRIMARY KEY DEFAULT nextval('kernel_configuration_sequence'),
    device_id BIGINT NOT NULL,
    level VARCHAR NOT NULL,
    family VARCHAR NOT NULL,
    sizes BIGINT[] NOT NULL,
    threads INTEGER NOT NULL,
    tile_rows INTEGER,
    tile_vectors INTEGER,
    panel INTEGER,
    depth INTEGER,
    block INTEGER,
    part INTEGER,
    even INTEGER,
    few INTEGER,
    unroll INTEGER,
    distance INTEGER,
    fetch_next INTEGER,
    run INTEGER,
    prepared INTEGER,
    streams INTEGER,
    kept INTEGER,
    median_ns DOUBLE NOT NULL,
    ratio DOUBLE NOT NULL,
    ratio_low DOUBLE NOT NULL,
    ratio_high DOUBLE NOT NULL,
    samples INTEGER NOT NULL,
    measured_at TIMESTAMP NOT NULL,
    loop_order INTEGER
);
COMMENT ON TABLE kernel_configuration IS 'Configurations of generated kernels that were timed beside the default one.';
COMMENT ON COLUMN kernel_configuration.kernel_configuration_id IS 'Key.';
COMMENT ON COLUMN kernel_configuration.device_id IS 'Machine.';
COMMENT ON COLUMN kernel_configuration.level IS 'Instructions that the kernel was compiled for.';
COMMENT ON COLUMN kernel_configuration.family IS 'Kind of kernel: product, convolution, pair (of convolutions), attention, row, column or cell; columns that it has not are NULL.';
COMMENT ON COLUMN kernel_configuration.sizes IS 'Of a product: rows, depth, columns. Of a convolution: images, channels read and made, those of a group that are read, height and width, rows and columns of the filter and of its tiles. Of a pair: a digest of what it computes, images, channels read, panels of channels between, lines of the result, numbers of a line of a panel, lines of the filter and its step. Of an attention: heads, queries, keys, depth and width. Of a kernel over rows: a digest of what it computes, rows and their length; of one of single cells the same; of one over columns: a digest, what else is kept, rows and columns.';
COMMENT ON COLUMN kernel_configuration.threads IS 'Threads of the session.';
COMMENT ON COLUMN kernel_configuration.tile_rows IS 'Rows (of an attention, queries) of a tile, whose sums stay in registers.';
COMMENT ON COLUMN kernel_configuration.tile_vectors IS 'Vectors of columns of a tile.';
COMMENT ON COLUMN kernel_configuration.panel IS 'Columns of a panel of the matrix, as it lies in memory.';
COMMENT ON COLUMN kernel_configuration.depth IS 'Steps of the depth of a piece of a panel.';
COMMENT ON COLUMN kernel_configuration.block IS 'Numbers of a block of rows, which a task multiplies by several panels; of the tiles of an image that are multiplied at once; or of what lies between two convolutions. Of an attention: queries whose scores are computed together, 0: by the number of keys. Columns that are folded together at most; single cells of a unit of work.';
COMMENT ON COLUMN kernel_configuration.part IS 'Numbers of a part of it that comes before the next part; 0 for all of it.';
COMMENT ON COLUMN kernel_configuration.even IS '1 where the tiles of a block are of much the same height.';
COMMENT ON COLUMN kernel_configuration.few IS '1 where one or two rows pass a whole panel, line after line.';
COMMENT ON COLUMN kernel_configuration.unroll IS 'Steps of the depth in a round of the innermost loop; rows that are folded into columns at a time; vectors of single cells at a time.';
COMMENT ON COLUMN kernel_configuration.distance IS 'Rows of the panel that are fetched in advance; 0 for none.';
COMMENT ON COLUMN kernel_configuration.fetch_next IS '1 where the next piece, or the filters of the next product, is fetched while this one is multiplied.';
COMMENT ON COLUMN kernel_configuration.run IS 'Panels that a task has, at least; of a convolution parts of its tiles, of a pair units of work of an image.';
COMMENT ON COLUMN kernel_configuration.prepared IS '1 where filters are transformed before a model runs, 0 where the kernel does it; NULL: by their size.';
COMMENT ON COLUMN kernel_configuration.streams IS 'Parts of a row that are added up side by side.';
COMMENT ON COLUMN kernel_configuration.kept IS 'What a cell that is needed again costs at least, in loads, to be kept.';
COMMENT ON COLUMN kernel_configuration.median_ns IS 'Time of a run.';
COMMENT ON COLUMN kernel_configuration.ratio IS 'That over the time of the default configuration, in the same rounds.';
COMMENT ON COLUMN kernel_configuration.ratio_low IS 'Lower end of its 95 % interval.';
COMMENT ON COLUMN kernel_configuration.ratio_high IS 'Upper end of it.';
COMMENT ON COLUMN kernel_configuration.samples IS 'Timed runs.';
COMMENT ON COLUMN kernel_configuration.measured_at IS 'When, in UTC.';
COMMENT ON COLUMN kernel_configuration.loop_order IS 'Of a convolution 1 where all channels of a tile are transformed before the next tile; of a pair 1 where parts of an image follow one another for the same channels.';
