package rented

import "github.com/switchyard/switchyard/pkg/policy/predict/sps"

// Method is a way to foretell a request's activation.
type Method struct {
	Name    string
	Settled sps.Settings // of the store that it asks
	Fit     bool         // of the temperature
	Predict func(*sps.Store, *Served) []float32
}

// Methods are the paper's (section V-B): ours first, with the softmax as printed and fitted.
func Methods(set sps.Settings) []Method {
	with := func(c sps.Clustering) sps.Settings { o := set; o.Clustering = c; return o }
	tree := func(s *sps.Store, r *Served) []float32 { return s.Predict(r.Vector) }
	return []Method{
		{"sps", set, false, tree},
		{"sps+fitted", set, true, tree},
		{"varpam", with(sps.PAM), false, tree},
		{"vared", with(sps.Activation), false, tree},
		{"dop", set, false, func(s *sps.Store, _ *Served) []float32 { return s.Average() }},
		{"fate", set, false, func(_ *sps.Store, r *Served) []float32 { return r.fate }},
		{"ef", set, false, func(s *sps.Store, _ *Served) []float32 { return s.Even() }},
		{"bf", set, false, func(s *sps.Store, r *Served) []float32 { return s.Mean(s.Scan(r.Vector), s.Temperature) }},
		{"bf+fitted", set, true, func(s *sps.Store, r *Served) []float32 { return s.Mean(s.Scan(r.Vector), s.Temperature) }},
	}
}
