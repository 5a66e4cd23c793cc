-- Attention and rows have configurations as well.
ALTER TABLE kernel_configuration RENAME TO kernel_configuration_11;
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
    measured_at TIMESTAMP NOT NULL
);
INSERT INTO kernel_configuration BY NAME SELECT * FROM kernel_configuration_11;
DROP TABLE kernel_configuration_11;
COMMENT ON TABLE kernel_configuration IS 'Configurations of generated kernels that were timed beside the default one.';
COMMENT ON COLUMN kernel_configuration.kernel_configuration_id IS 'Key.';
COMMENT ON COLUMN kernel_configuration.device_id IS 'Machine.';
COMMENT ON COLUMN kernel_configuration.level IS 'Instructions that the kernel was compiled for.';
COMMENT ON COLUMN kernel_configuration.family IS 'Kind of kernel: product, convolution, attention or row; columns that it has not are NULL.';
COMMENT ON COLUMN kernel_configuration.sizes IS 'Of a product: rows, depth, columns. Of a convolution: images, channels read and made, those of a group that are read, height and width, rows and columns of the filter and of its tiles. Of an attention: heads, queries, keys, depth and width. Of a kernel over rows: a digest of what it computes, rows and their length.';
COMMENT ON COLUMN kernel_configuration.threads IS 'Threads of the session.';
COMMENT ON COLUMN kernel_configuration.tile_rows IS 'Rows (of an attention, queries) of a tile, whose sums stay in registers.';
COMMENT ON COLUMN kernel_configuration.tile_vectors IS 'Vectors of columns of a tile.';
COMMENT ON COLUMN kernel_configuration.panel IS 'Columns of a panel of the matrix, as it lies in memory.';
COMMENT ON COLUMN kernel_configuration.depth IS 'Steps of the depth of a piece of a panel.';
COMMENT ON COLUMN kernel_configuration.block IS 'Numbers of a block of rows, which a task multiplies by several panels; or of the tiles of an image that are multiplied at once. Of an attention: queries whose scores are computed together, 0: by the number of keys.';
COMMENT ON COLUMN kernel_configuration.part IS 'Numbers of a part of it that comes before the next part; 0 for all of it.';
COMMENT ON COLUMN kernel_configuration.even IS '1 where the tiles of a block are of much the same height.';
COMMENT ON COLUMN kernel_configuration.few IS '1 where one or two rows pass a whole panel, line after line.';
COMMENT ON COLUMN kernel_configuration.unroll IS 'Steps of the depth in a round of the innermost loop.';
COMMENT ON COLUMN kernel_configuration.distance IS 'Rows of the panel that are fetched in advance; 0 for none.';
COMMENT ON COLUMN kernel_configuration.fetch_next IS '1 where the next piece is fetched while this one is multiplied.';
COMMENT ON COLUMN kernel_configuration.run IS 'Panels that a task has, at least.';
COMMENT ON COLUMN kernel_configuration.prepared IS '1 where filters are transformed before a model runs, 0 where the kernel does it; NULL: by their size.';
COMMENT ON COLUMN kernel_configuration.streams IS 'Parts of a row that are added up side by side.';
COMMENT ON COLUMN kernel_configuration.kept IS 'What a cell that is needed again costs at least, in loads, to be kept.';
COMMENT ON COLUMN kernel_configuration.median_ns IS 'Time of a run.';
COMMENT ON COLUMN kernel_configuration.ratio IS 'That over the time of the default configuration, in the same rounds.';
COMMENT ON COLUMN kernel_configuration.ratio_low IS 'Lower end of its 95 % interval.';
COMMENT ON COLUMN kernel_configuration.ratio_high IS 'Upper end of it.';
COMMENT ON COLUMN kernel_configuration.samples IS 'Timed runs.';
COMMENT ON COLUMN kernel_configuration.measured_at IS 'When, in UTC.';
