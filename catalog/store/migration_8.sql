-- Graphs with timed configurations, as files of TpuGraphs have them.
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
