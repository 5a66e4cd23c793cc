-- Configurations of generated kernels: what processors have, and what was measured.
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
    median_ns DOUBLE NOT NULL,
    ratio DOUBLE NOT NULL,
    ratio_low DOUBLE NOT NULL,
    ratio_high DOUBLE NOT NULL,
    samples INTEGER NOT NULL,
    measured_at TIMESTAMP NOT NULL
);
COMMENT ON TABLE kernel_configuration IS 'Configurations of generated kernels that were timed beside the default one.';
COMMENT ON COLUMN kernel_configuration.kernel_configuration_id IS 'Key.';
COMMENT ON COLUMN kernel_configuration.device_id IS 'Machine.';
COMMENT ON COLUMN kernel_configuration.level IS 'Instructions that the kernel was compiled for.';
COMMENT ON COLUMN kernel_configuration.family IS 'Kind of kernel: product or convolution; columns that it has not are NULL.';
COMMENT ON COLUMN kernel_configuration.sizes IS 'Of a product: rows, depth, columns. Of a convolution: images, channels read and made, those of a group that are read, height and width, rows and columns of the filter and of its tiles.';
COMMENT ON COLUMN kernel_configuration.threads IS 'Threads of the session.';
COMMENT ON COLUMN kernel_configuration.tile_rows IS 'Rows of a tile, whose sums stay in registers.';
COMMENT ON COLUMN kernel_configuration.tile_vectors IS 'Vectors of columns of a tile.';
COMMENT ON COLUMN kernel_configuration.panel IS 'Columns of a panel of the matrix, as it lies in memory.';
COMMENT ON COLUMN kernel_configuration.depth IS 'Steps of the depth of a piece of a panel.';
COMMENT ON COLUMN kernel_configuration.block IS 'Numbers of a block of rows, which a task multiplies by several panels; or of the tiles of an image that are multiplied at once.';
COMMENT ON COLUMN kernel_configuration.part IS 'Numbers of a part of it that comes before the next part; 0 for all of it.';
COMMENT ON COLUMN kernel_configuration.even IS '1 where the tiles of a block are of much the same height.';
COMMENT ON COLUMN kernel_configuration.few IS '1 where one or two rows pass a whole panel, line after line.';
COMMENT ON COLUMN kernel_configuration.unroll IS 'Steps of the depth in a round of the innermost loop.';
COMMENT ON COLUMN kernel_configuration.distance IS 'Rows of the panel that are fetched in advance; 0 for none.';
COMMENT ON COLUMN kernel_configuration.fetch_next IS '1 where the next piece is fetched while this one is multiplied.';
COMMENT ON COLUMN kernel_configuration.run IS 'Panels that a task has, at least.';
COMMENT ON COLUMN kernel_configuration.prepared IS '1 where filters are transformed before a model runs, 0 where the kernel does it; NULL: by their size.';
COMMENT ON COLUMN kernel_configuration.median_ns IS 'Time of a run.';
COMMENT ON COLUMN kernel_configuration.ratio IS 'That over the time of the default configuration, in the same rounds.';
COMMENT ON COLUMN kernel_configuration.ratio_low IS 'Lower end of its 95 % interval.';
COMMENT ON COLUMN kernel_configuration.ratio_high IS 'Upper end of it.';
COMMENT ON COLUMN kernel_configuration.samples IS 'Timed runs.';
COMMENT ON COLUMN kernel_configuration.measured_at IS 'When, in UTC.';
