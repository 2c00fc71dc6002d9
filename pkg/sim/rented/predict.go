package rented

import "github.com/switchyard/switchyard/pkg/policy/predict/sps"

// Method is a way to foretell a request's activation.
type Method struct {
	Name    string
	Settled sps.Settings // of the store that it asks
	Fit     bool         // of the temperature
	Predict func(*sps.Store, *Served) ([]float32, error)
}

// Methods are the paper's (section V-B): ours first, with the softmax as printed and fitted, and
// with a store that takes in each request after it was served, and has room for so many.
func Methods(set sps.Settings, room int) []Method {
	with := func(c sps.Clustering) sps.Settings { o := set; o.Clustering = c; return o }
	bounded := set
	bounded.Capacity = max(room, set.Alpha)
	by := func(ask func(*sps.Store, *Served) []float32) func(*sps.Store, *Served) ([]float32, error) {
		return func(s *sps.Store, r *Served) ([]float32, error) { return ask(s, r), nil }
	}
	tree := by(func(s *sps.Store, r *Served) []float32 { return s.Predict(r.Vector) })
	all := by(func(s *sps.Store, r *Served) []float32 { return s.Mean(s.Scan(r.Vector), s.Temperature) })
	return []Method{
		{"sps", set, false, tree},
		{"sps+fitted", set, true, tree},
		{"sps+online", bounded, true, func(s *sps.Store, r *Served) ([]float32, error) {
			foretold := s.Predict(r.Vector)
			return foretold, s.Add(r.Prompt)
		}},
		{"varpam", with(sps.PAM), false, tree},
		{"vared", with(sps.Activation), false, tree},
		{"dop", set, false, by(func(s *sps.Store, _ *Served) []float32 { return s.Average() })},
		{"fate", set, false, by(func(_ *sps.Store, r *Served) []float32 { return r.fate })},
		{"ef", set, false, by(func(s *sps.Store, _ *Served) []float32 { return s.Even() })},
		{"bf", set, false, all},
		{"bf+fitted", set, true, all},
	}
}
