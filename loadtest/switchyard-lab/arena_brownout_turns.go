package main

import (
	"slices"
	"sync"
	"time"

	"github.com/switchyard/switchyard/loadtest/replay"
	"github.com/switchyard/switchyard/loadtest/sim/bursts"
	"github.com/switchyard/switchyard/pkg/policy/brownout"
	"github.com/switchyard/switchyard/pkg/serverless/routing"
	"github.com/switchyard/switchyard/services/attention/engine"
	"github.com/switchyard/switchyard/services/attention/layer"
)

// dimmedTurn is for how many steps a setting is obeyed, before as many without a brownout. The first step of
// a turn does not count: caches have weights that the turn before it used.
const dimmedTurn = 8

// turns is a directive that turns of decoding steps obey: none, one, one, none, and so on, so that both kinds
// have answers as long. No other step obeys it. Steps follow each other: there is one microbatch.
type turns struct {
	order *layer.Order

	mu    sync.Mutex
	begun []turned
	steps int // that decode
}

// turned is a step that is about to begin.
type turned struct {
	at            time.Time
	dimmed, first bool
}

// Now implements engine.Directives.
func (t *turns) Now(prefill bool) engine.Directive {
	t.mu.Lock()
	defer t.mu.Unlock()
	now := turned{at: time.Now(), first: true}
	if !prefill {
		now.dimmed, now.first = (t.steps/dimmedTurn+1)/2%2 == 1, t.steps%dimmedTurn == 0
		t.steps++
	}
	t.begun = append(t.begun, now)
	if !now.dimmed {
		return engine.Directive{Share: 1}
	}
	return engine.Directive{Order: t.order, Share: 1}
}

// Step implements engine.Directives.
func (*turns) Step(engine.Stepped) {}

// Wait implements engine.Directives.
func (*turns) Wait(engine.Waiting) {}

// at says of a step that began at a time whether it obeyed the order, and whether it counts.
func (t *turns) at(began time.Time) (dimmed, counts bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	n, _ := slices.BinarySearchFunc(t.begun, began, func(one turned, at time.Time) int {
		if one.at.After(at) {
			return 1
		}
		return -1
	})
	if n == 0 {
		return false, false
	}
	return t.begun[n-1].dimmed, !t.begun[n-1].first
}

// dimmedRun is a run's steps that only decode, without a brownout and with one.
type dimmedRun struct {
	none, dim dimmedSteps
	late      float64
}

// dimmedSteps are a run's steps of one kind: what they take in the mean, and what of that their experts do by
// the simulator, in seconds; and their accesses before and after the split.
type dimmedSteps struct {
	seconds, experts     float64
	steps, before, after int
}

// measure is the mean of a run's steps of each kind, and the simulator's for the same rows.
func (s *dimmedSuite) measure(r *replay.Result, t *turns, k int) (m dimmedRun) {
	m.late = r.LateShare
	none, dim := s.simulated(r.Shape, k), s.simulated(r.Shape, k)
	none.Thresholds = [2]int{brownout.One, brownout.One}
	for _, step := range r.Steps {
		dimmed, counts := t.at(r.Began.Add(step.At))
		if !counts || !s.decodes(step) {
			continue
		}
		if dimmed {
			m.dim.add(dim, step)
		} else {
			m.none.add(none, step)
		}
	}
	m.none.mean()
	m.dim.mean()
	return m
}

// add adds a step.
func (m *dimmedSteps) add(set bursts.Settings, step replay.Step) {
	loads := [2][]uint32{}
	for _, l := range step.Layers {
		loads[bursts.Decode] = append(loads[bursts.Decode], l.Loads...)
	}
	p := bursts.PriceOf(set, loads, 0)
	m.steps++
	m.seconds += step.Took.Seconds()
	m.experts += p.Experts
	m.before, m.after = m.before+p.Before, m.after+p.After
}

func (m *dimmedSteps) mean() {
	n := float64(max(1, m.steps))
	m.seconds, m.experts = m.seconds/n, m.experts/n
}

// decodes reports whether each stream has one row in a step.
func (s *dimmedSuite) decodes(step replay.Step) bool {
	return step.Rows == s.Streams && len(step.Parts) == s.Streams
}

// simulated is the simulator of the same host.
func (s *dimmedSuite) simulated(shape routing.Shape, k int) bursts.Settings {
	p, of := s.profile, dimmed[k]
	row := s.profile.ExpertBytes.Value / p.Element.Value * 2 / p.Rate.Value
	return bursts.Settings{
		Device: bursts.Device{Call: p.Call.Value + p.Access.Value, Read: p.ExpertBytes.Value / p.Read.Value, Row: row, Fused: s.Engine == "fused"},
		Shape:  shape, Strategy: brownout.Partial, Way: of.way, Thresholds: [2]int{of.threshold, of.threshold}, Exempt: s.Exempt,
	}
}
