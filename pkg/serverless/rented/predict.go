package rented

import "github.com/switchyard/switchyard/pkg/policy/predict/sps"

// Method is a way to foretell a request's activation.
type Method struct {
	Name    string
	Settled sps.Settings // of the store that it asks
	Fit     bool         // of the temperature
	Predict func(*sps.Store, *Served) ([]float32, error)
}

// Methods are the paper's (section V-B): Remoe's first, with the softmax as printed and fitted,
// with a store that takes in each request after it was served, and has room for so many, with
// searches of several leaves, and with vectors and means as we have them.
func Methods(set sps.Settings, room int) []Method {
	with := func(c sps.Clustering) sps.Settings { o := set; o.Clustering = c; return o }
	ours := set
	ours.Centred, ours.Blended = true, true
	wide := set
	wide.Leaves = 8
	bounded := set
	bounded.Capacity = max(room, set.Alpha)
	by := func(ask func(*sps.Store, *Served) []float32) func(*sps.Store, *Served) ([]float32, error) {
		return func(s *sps.Store, r *Served) ([]float32, error) { return ask(s, r), nil }
	}
	tree := by(func(s *sps.Store, r *Served) []float32 { return s.Predict(r.Vector) })
	all := by(func(s *sps.Store, r *Served) []float32 { return s.Foretold(s.Scan(r.Vector)) })
	return []Method{
		{"sps", set, false, tree},
		{"sps+fitted", set, true, tree},
		{"sps+online", bounded, true, func(s *sps.Store, r *Served) ([]float32, error) {
			foretold := s.Predict(r.Vector)
			return foretold, s.Add(r.Prompt)
		}},
		{"sps+leaves", wide, true, tree},
		{"sps+ours", ours, true, tree},
		{"varpam", with(sps.PAM), false, tree},
		{"vared", with(sps.Activation), false, tree},
		{"dop", set, false, by(func(s *sps.Store, _ *Served) []float32 { return s.Average() })},
		{"fate", set, false, by(func(_ *sps.Store, r *Served) []float32 { return r.Fate })},
		{"ef", set, false, by(func(s *sps.Store, _ *Served) []float32 { return s.Even() })},
		{"bf", set, false, all},
		{"bf+fitted", set, true, all},
	}
}
