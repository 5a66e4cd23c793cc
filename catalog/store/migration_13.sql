-- What a stage of a plan takes a device, and what devices of a node take from each other.
ALTER TABLE device ADD COLUMN stage_s DOUBLE;
ALTER TABLE device ADD COLUMN contention_s_per_byte DOUBLE;
COMMENT ON COLUMN device.stage_s IS 'What running a stage of a plan takes it beside the operators; NULL or 0 where each operator is started by itself.';
COMMENT ON COLUMN device.contention_s_per_byte IS 'What a byte of weights takes longer while the other devices of its node compute as well.';
