-- Regions that kernels could stand for are rows, with what became of them.
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
