package arena

import "github.com/switchyard/switchyard/pkg/policy/deployplan/bo"

// boSettings is the policy that sweeps what is assumed of searches.
const boSettings = "bo-settings"

// searches are settings of a search with one number changed.
func (l *batchLab) searches() (names []string, all []bo.Settings) {
	for _, one := range []struct {
		name   string
		change func(s *bo.Settings)
	}{
		{"ε0 0.5", func(s *bo.Settings) { s.Epsilon = 0.5 }},
		{"ε0 1", func(s *bo.Settings) { s.Epsilon = 1 }},
		{"μ 0.1", func(s *bo.Settings) { s.Mu = 0.1 }},
		{"μ 0.9", func(s *bo.Settings) { s.Mu = 0.9 }},
		{"ρ 0.05", func(s *bo.Settings) { s.Rho, s.Slow = 0.05, [3]float64{0.0375, 0.025, 0.0125} }},
		{"ρ 0.8", func(s *bo.Settings) { s.Rho, s.Slow = 0.8, [3]float64{0.6, 0.4, 0.2} }},
		{"α 0", func(s *bo.Settings) { s.Alpha = 0 }},
		{"α × 10", func(s *bo.Settings) { s.Alpha *= 10 }},
		{"ζ 0.0001", func(s *bo.Settings) { s.Zeta = 0.0001 }},
		{"ζ 0.01", func(s *bo.Settings) { s.Zeta = 0.01 }},
		{"λ 4", func(s *bo.Settings) { s.Lambda = 4 }},
		{"λ 24", func(s *bo.Settings) { s.Lambda = 24 }},
		{"Q 100", func(s *bo.Settings) { s.Q = 100 }},
	} {
		set := l.searchSettings(bo.Multi)
		one.change(&set)
		names, all = append(names, one.name), append(all, set)
	}
	return names, all
}

// settings searches with each of them.
func (l *batchLab) settings(p *bo.Problem, base, known float64) error {
	names, all := l.searches()
	for i, set := range all {
		set.Q = min(set.Q, l.Pairs)
		if _, _, err := l.searched(p, set, names[i], base, known); err != nil {
			return err
		}
	}
	return nil
}
