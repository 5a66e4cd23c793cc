"""A track for races of simulated models: nothing on it depends on the machine or its load."""

import numpy as np


class Track:
    """Simulated models: time passes when they run, noise is shared by nobody."""

    def __init__(self, times, noise=0.05, load_s=0.0, *, disturbed=0.0, spells=None, seed=7):
        """`times` in ns. A run is disturbed with a probability, by half of its time on average.

        `spells` are factors by which models are slower until a time of the clock: {name: (until_s,
        factor)}.
        """
        self.now = 0.0
        self.alive = 0
        self.most_alive = 0
        self.log = []
        self.loaded = []
        self._times = times
        self._noise = noise
        self._load_s = load_s
        self._disturbed = disturbed
        self._spells = spells or {}
        self._random = np.random.default_rng(seed)

    def clock(self):
        return self.now

    def load(self, name):
        return Model(self, name)


class Model:
    def __init__(self, track, name):
        self._track, self._name = track, name
        track.now += track._load_s
        track.loaded.append(name)
        track.alive += 1
        track.most_alive = max(track.most_alive, track.alive)

    def __del__(self):
        self._track.alive -= 1

    def time(self, runs=1):
        track = self._track
        track.log.append((self._name, runs))
        noise = np.exp(track._noise * track._random.standard_normal())
        if track._disturbed and track._random.random() < track._disturbed:
            noise *= 1 + track._random.exponential(0.5)
        until_s, factor = track._spells.get(self._name, (0.0, 1.0))
        ns = track._times[self._name] * noise * (factor if track.now < until_s else 1.0)
        track.now += ns * runs * 1e-9
        return ns
