-- Devices of clusters and the links between them, which plans over devices are made for.
ALTER TABLE device ADD COLUMN cluster_hash VARCHAR;
ALTER TABLE device ADD COLUMN kind VARCHAR;
ALTER TABLE device ADD COLUMN node VARCHAR;
ALTER TABLE device ADD COLUMN flops_per_s DOUBLE;
ALTER TABLE device ADD COLUMN memory_bytes_per_s DOUBLE;
ALTER TABLE device ADD COLUMN launch_s DOUBLE;
ALTER TABLE device ADD COLUMN machine VARCHAR;
COMMENT ON TABLE device IS 'Machines that measurements were taken on, and the devices of clusters.';
COMMENT ON COLUMN device.name IS 'Name of the processor, or of the device in its cluster.';
COMMENT ON COLUMN device.instruction_set IS 'Vector instructions, as avx512, or what else tells the processors of a kind apart.';
COMMENT ON COLUMN device.cluster_hash IS 'Cluster that it is a device of, here and in the next columns; NULL for a machine of its own.';
COMMENT ON COLUMN device.kind IS 'Kind, as cpu or gpu.';
COMMENT ON COLUMN device.node IS 'Computer that it is in; empty if it is said of none.';
COMMENT ON COLUMN device.flops_per_s IS 'Peak in float32 of all its cores together.';
COMMENT ON COLUMN device.memory_bytes_per_s IS 'Bandwidth of its memory.';
COMMENT ON COLUMN device.launch_s IS 'What starting an operator takes.';
COMMENT ON COLUMN device.machine IS 'Fingerprint of the machine whose measured kernels hold for it; NULL if none does.';

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
    stored_at TIMESTAMP NOT NULL
);
COMMENT ON TABLE cluster IS 'Descriptions of devices and links that plans are made for.';
COMMENT ON COLUMN cluster.cluster_hash IS 'Key: SHA-256, in hexadecimal, of all that is said of it.';
COMMENT ON COLUMN cluster.name IS 'Name.';
COMMENT ON COLUMN cluster.devices IS 'Number of its devices.';
COMMENT ON COLUMN cluster.stored_at IS 'When it was stored, in UTC.';
