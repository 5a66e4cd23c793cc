-- What `sql` of a fused function answers from: a kept region a row, its program, and its plan
-- (optimizer/fuse/planning/fusion_plan.py). Regions are numbered from 1, in the order in which they were planned.

CREATE TABLE region (
    region_id BIGINT, nodes BIGINT, kernels BIGINT, refusal VARCHAR, cost_s DOUBLE,
    planning_s DOUBLE, heuristic VARCHAR, bound_s DOUBLE, plans DOUBLE, costed BIGINT,
    bounds BIGINT, skipped_by_cost DOUBLE, skipped_by_structure DOUBLE);
CREATE TABLE region_rule (region_id BIGINT, position BIGINT, rule VARCHAR);
-- What calls of an operator's kernel took by how its work was divided (configurations.dl); the last race alone.
CREATE TABLE kernel_configuration (
    region_id BIGINT, operator_id BIGINT, calls BIGINT, block BIGINT, part BIGINT, run BIGINT,
    median_s DOUBLE, chosen BOOLEAN);
CREATE TABLE program_node (
    region_id BIGINT, node_id BIGINT, op VARCHAR, inputs BIGINT[], attributes VARCHAR,
    shape BIGINT[], dtype VARCHAR, layout VARCHAR, nnz BIGINT, is_output BOOLEAN);

CREATE TABLE fusion_operator (
    region_id BIGINT, operator_id BIGINT, template VARCHAR, variant VARCHAR, sparse BOOLEAN,
    cost_s DOUBLE, read_bytes DOUBLE, write_bytes DOUBLE, flops DOUBLE);
CREATE TABLE fusion_cover (
    region_id BIGINT, operator_id BIGINT, node_id BIGINT, materialized BOOLEAN);
CREATE TABLE fusion_memo (
    region_id BIGINT, entry_id BIGINT, node_id BIGINT, template VARCHAR, close VARCHAR,
    fused BIGINT[]);
CREATE TABLE fusion_partition (
    region_id BIGINT, partition_id BIGINT, points BIGINT, cost_s DOUBLE);
CREATE TABLE fusion_member (
    region_id BIGINT, partition_id BIGINT, node_id BIGINT, root BOOLEAN, candidate BOOLEAN,
    stored BOOLEAN);
CREATE TABLE fusion_point (
    region_id BIGINT, partition_id BIGINT, consumer_id BIGINT, producer_id BIGINT, kind VARCHAR,
    materialized BOOLEAN);
