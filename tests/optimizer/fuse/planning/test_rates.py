"""The rates of a machine: measured once, kept, and measured again where what is kept is no use."""

import json

import pytest
from tensolog.optimizer.fuse.planning import Machine
from tensolog.optimizer.fuse.planning import machine_rates as machine

FOUND = dict.fromkeys(machine._NAMES, 2.0e9)


@pytest.fixture(autouse=True)
def measurements(tmp_path, monkeypatch):
    """Count measurements, each of which finds another machine."""
    rates_measured = []

    def measured():
        rates_measured.append({**FOUND, "read": 1e9 * (len(rates_measured) + 1)})
        return rates_measured[-1]

    monkeypatch.setenv("TENSOLOG_RATES", str(tmp_path / "kept" / "rates.json"))
    monkeypatch.setattr(machine, "measured", measured)
    return rates_measured


def test_rates_are_measured_once_for_a_processor(measurements, monkeypatch):
    assert machine.rates() == machine.rates() == measurements[0]
    assert len(measurements) == 1
    other = type("Other", (), {"fingerprint": "another"})
    monkeypatch.setattr(machine, "identity", lambda: other)
    assert machine.rates() == measurements[1]
    assert len(json.loads(machine.place().read_text())) == 2


@pytest.mark.parametrize("kept", ["", "[]", "{", '{"%s": {"read": 1}}', '{"%s": []}'])
def test_what_is_kept_and_no_use_is_measured_again(kept, measurements):
    machine.place().parent.mkdir()
    machine.place().write_text(kept.replace("%s", machine.identity().fingerprint))
    assert machine.rates() == measurements[0]
    assert machine.rates() == measurements[0]


def test_numbers_that_are_no_rates_are_measured_again(measurements):
    machine.place().parent.mkdir()
    for wrong in ({"read": 0}, {"write": -1.0}, {"flops": float("nan")}, {"cache": "1"}):
        kept = {machine.identity().fingerprint: {**FOUND, **wrong}}
        machine.place().write_text(json.dumps(kept))
        assert machine.rates() == measurements[-1]


def test_where_nothing_can_be_kept_rates_are_known_all_the_same(tmp_path, monkeypatch):
    monkeypatch.setenv("TENSOLOG_RATES", str(tmp_path / "file" / "rates.json"))
    (tmp_path / "file").write_text("in the way")
    assert Machine(**machine.rates()).read > 0


def test_near_arrays_are_faster_where_all_fit():
    machine = Machine(near=3.0, near_bytes=100.0)
    assert machine.over(101) == machine
    assert machine.over(100).read == 3 * machine.read
    written = Machine(near=3.0, near_write=5.0, near_bytes=100.0).over(100).write
    assert written == 5 * machine.write


@pytest.mark.parametrize(
    ("double_s", "single_s", "weight"), [(1e-4, 5e-5, 18e4), (1e-3, 1e-4, 13.5e4)]
)
def test_vectors_are_measured_where_numpy_has_them(double_s, single_s, weight, monkeypatch):
    """By float64's exponential where NumPy has vectors for it, otherwise by float32's."""
    seconds = iter((double_s, single_s, 1.0))
    monkeypatch.setattr(machine, "_least_s", lambda call, times: next(seconds))
    assert machine._computing() == pytest.approx((weight * machine._CELLS, 20 * machine._CELLS))


def test_a_measurement_gives_rates(monkeypatch):
    monkeypatch.undo()
    assert machine._is_whole(machine.measured())
