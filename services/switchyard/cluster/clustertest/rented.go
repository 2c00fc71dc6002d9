package clustertest

import (
	"testing"

	"github.com/switchyard/switchyard/pkg/policy/cost"
	"github.com/switchyard/switchyard/pkg/policy/cost/serverless"
	"github.com/switchyard/switchyard/pkg/policy/deployplan/remoe"
	"github.com/switchyard/switchyard/services/expert"
	"github.com/switchyard/switchyard/services/scaler"
	"github.com/switchyard/switchyard/services/switchyard/cluster"
)

// Turns have each request wait for a plan of its own, with what Rented has made.
func Turns(turns *scaler.Turns) Change {
	return func(s *cluster.Settings) {
		r := s.Services.Scaler.Rent
		r.Turns, r.Each, r.Window, r.Worth, r.SLO.TTFT = turns, true, 1, 0, 5
		s.Services.Attention.Before, s.Services.Attention.MaxSequences = turns.Before, 1
	}
}

// Rented has hosts stand for a quick serverless platform, whose functions hold half of a layer's
// experts at most and have two replicas, and a scaler plan by Remoe.
func Rented(t testing.TB) Change {
	t.Helper()
	return func(s *cluster.Settings) {
		m, err := cluster.RentedModel(s.Node.Shared.Model)
		if err != nil {
			t.Fatal(err)
		}
		const prompt, answer = 32, 16
		half := float64(m.Experts/2)*m.Expert + m.Token*prompt*float64(m.TopK)
		y := &serverless.System{
			Model: m, Main: []float64{4*m.All() + half}, Replicas: 2, Network: 1e9, Switch: cost.Link{Bandwidth: 1e9},
			Functions: cost.Platform{
				Sizes: []float64{half}, PerCPU: half, CPU: cost.Roofline{Bandwidth: 1e9, Rate: 1e12, ElementBytes: 2}, Container: 0.01,
				Parameters: cost.Link{Bandwidth: 1e9}, Fixed: 1e-4, Payload: 2 * m.Token, Prices: cost.Prices{Memory: 1e-5},
			},
			GPU: cost.Roofline{Bandwidth: 1e12, Rate: 1e14, ElementBytes: 2}, GPUPrice: 3e-5,
		}
		s.Services.Expert.Rent = &expert.Rent{Name: "made-up", System: y, Seed: 1}
		s.Services.Gate.Payload = y.Functions.Payload
		Loop("static")(s)
		s.Count["predictor"] = 0
		s.Services.Scaler.Rent = &scaler.Rent{SharedSettings: remoe.SharedSettings{
			System: y, Plan: remoe.Settings{Step: 1e-9}, SLO: serverless.SLO{TTFT: 60, TPOT: 10}, Most: prompt, Output: answer, Window: 4, Worth: 0.02,
		}}
	}
}
