-- Devices may be workers of an engine that runs clusters.
ALTER TABLE device ADD COLUMN address VARCHAR;
ALTER TABLE cluster ADD COLUMN scheduler VARCHAR;
COMMENT ON COLUMN device.address IS 'Address of the worker of the cluster''s engine that it is; NULL if it is none.';
COMMENT ON COLUMN cluster.scheduler IS 'Address of the engine''s scheduler, where its devices are workers; NULL if they are none.';
