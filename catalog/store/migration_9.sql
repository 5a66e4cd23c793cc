-- What `tensolog deploy` measured, and chose.
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
