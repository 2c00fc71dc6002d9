package prompts

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/switchyard/switchyard/pkg/policy/predict"
	"github.com/switchyard/switchyard/pkg/policy/predict/sps"
	"github.com/switchyard/switchyard/pkg/serverless/rented"
)

// Line is what a way to foretell activations gave on a set's test prompts.
type Line struct {
	Set    string `json:"set"`
	Model  string `json:"model"`
	Method string `json:"method"`
	Past   int    `json:"past"`
	Test   int    `json:"test"`
	// JS is the divergence from what the rows chose, in bits, in the mean of prompts and layers; High
	// and Low are where the mean lies with 95 %; Of is JS as a part of brute force's.
	JS   float64 `json:"js_divergence"`
	Low  float64 `json:"low"`
	High float64 `json:"high"`
	Of   float64 `json:"of_bf"`
	// Nearer is the share of prompts that are foretold better than by the mean of all prompts (dop).
	Nearer float64 `json:"nearer_than_dop_ratio"`
	// Build are milliseconds to build the store, Search microseconds to foretell a prompt.
	Build       float64 `json:"build_ms"`
	Search      float64 `json:"search_us"`
	Temperature float64 `json:"temperature"`

	each []float64 // divergences of prompts
}

// Pairs are the test prompts beside all of the past (figure 3): how similar they are, and how far apart
// their activations.
type Pairs struct {
	Set   string `json:"set"`
	Model string `json:"model"`
	Pairs int    `json:"pairs"`
	// Pearson correlates similarity and divergence: below 0 where similar prompts have similar experts.
	Pearson float64 `json:"pearson"`
	Bins    []Bin   `json:"bins"`
}

// Bin are a twentieth of the pairs, by similarity.
type Bin struct {
	Similarity float64 `json:"similarity"`
	JS         float64 `json:"js_divergence"`
}

const bins = 20

// Evaluate foretells a set's test prompts by each way.
func Evaluate(ctx context.Context, name string, set sps.Settings, past, test []Seen) (all []Line, err error) {
	texts := &rented.Texts{Width: set.Width}
	for _, p := range past {
		texts.Past = append(texts.Past, p.Prompt)
	}
	for _, p := range test {
		texts.Served = append(texts.Served, rented.Served{Prompt: p.Prompt, Fate: p.Fate})
	}
	for _, m := range rented.Methods(set, len(past)) {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		began := time.Now()
		store, err := rented.Shape{}.Store(texts, m.Settled, m.Fit)
		if m.Settled.Clustering == sps.PAM && errors.Is(err, sps.ErrSettings) {
			continue // there are too many prompts to exchange all medoids
		}
		if err != nil {
			return nil, err
		}
		l := Line{Set: name, Model: set.Model, Method: m.Name, Past: len(past), Test: len(test), Build: 1e3 * time.Since(began).Seconds(), Temperature: store.Temperature}
		began = time.Now()
		foretold := make([][]float32, len(test))
		for i := range texts.Served {
			if foretold[i], err = m.Predict(store, &texts.Served[i]); err != nil {
				return nil, err
			}
		}
		l.Search = 1e6 * time.Since(began).Seconds() / float64(max(1, len(test)))
		l.apart(foretold, test, set.Experts)
		all = append(all, l)
	}
	return all, compare(all)
}

// apart fills in how far what was foretold is from what came.
func (l *Line) apart(foretold [][]float32, test []Seen, experts int) {
	l.each = make([]float64, len(test))
	squares, n := 0.0, float64(len(test))
	for i := range test {
		l.each[i] = sps.Divergence(foretold[i], test[i].Activation, experts)
		l.JS += l.each[i] / n
	}
	for _, v := range l.each {
		squares += (v - l.JS) * (v - l.JS)
	}
	half := 1.96 * math.Sqrt(squares/max(1, n-1)/n)
	l.Low, l.High = l.JS-half, l.JS+half
}

// compare sets each line beside brute force and the mean of all prompts.
func compare(all []Line) error {
	find := func(method string) int {
		return slices.IndexFunc(all, func(l Line) bool { return l.Method == method })
	}
	bf, dop := find("bf"), find("dop")
	if bf < 0 || dop < 0 {
		return errors.New("brute force or the mean of all prompts was not measured")
	}
	for i := range all {
		if all[bf].JS > 0 {
			all[i].Of = all[i].JS / all[bf].JS
		}
		for j, v := range all[i].each {
			if v < all[dop].each[j] {
				all[i].Nearer += 1 / float64(len(all[i].each))
			}
		}
	}
	return nil
}

// Compare sets each test prompt beside each one of the past.
func Compare(name string, set sps.Settings, past, test []Seen) *Pairs {
	p := &Pairs{Set: name, Model: set.Model, Pairs: len(past) * len(test)}
	similar, apart := make([]float64, 0, p.Pairs), make([]float64, 0, p.Pairs)
	for _, t := range test {
		for _, other := range past {
			sum := 0.0
			for i, v := range t.Vector {
				sum += float64(v) * float64(other.Vector[i])
			}
			similar, apart = append(similar, sum), append(apart, sps.Divergence(t.Activation, other.Activation, set.Experts))
		}
	}
	p.Pearson = predict.Pearson(similar, apart)
	order := make([]int, len(similar))
	for i := range order {
		order[i] = i
	}
	slices.SortFunc(order, func(a, b int) int { return cmp.Or(cmp.Compare(similar[a], similar[b]), cmp.Compare(a, b)) })
	for b := range min(bins, len(order)) {
		one, some := Bin{}, order[len(order)*b/bins:max(len(order)*b/bins+1, len(order)*(b+1)/bins)]
		for _, i := range some {
			one.Similarity, one.JS = one.Similarity+similar[i]/float64(len(some)), one.JS+apart[i]/float64(len(some))
		}
		p.Bins = append(p.Bins, one)
	}
	return p
}

// String is the line for people.
func (l Line) String() string {
	return fmt.Sprintf("%-12s %-12s %.4f bits (%.4f to %.4f), %.3f of bf, nearer than dop for %.0f %%; built in %.0f ms, asked in %.0f µs, temperature %v\n",
		l.Set, l.Method, l.JS, l.Low, l.High, l.Of, 100*l.Nearer, l.Build, l.Search, l.Temperature)
}

// String is the comparison for people.
func (p *Pairs) String() string {
	first, last := p.Bins[0], p.Bins[len(p.Bins)-1]
	return fmt.Sprintf("%-12s %d pairs: similarity and divergence correlate by %.3f; the least similar twentieth (%.3f) is %.4f bits apart, the most similar one (%.3f) %.4f\n",
		p.Set, p.Pairs, p.Pearson, first.Similarity, first.JS, last.Similarity, last.JS)
}
