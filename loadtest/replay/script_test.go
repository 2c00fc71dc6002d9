package replay_test

import (
	"context"
	"errors"
	"reflect"
	"slices"
	"testing"
	"time"

	"github.com/switchyard/switchyard/loadtest/replay"
	"github.com/switchyard/switchyard/pkg/compute/model"
	"github.com/switchyard/switchyard/pkg/compute/tensor"
	"github.com/switchyard/switchyard/schemas"
	"github.com/switchyard/switchyard/services/switchyard/cluster"
	"github.com/switchyard/switchyard/services/switchyard/cluster/clustertest"
)

// play answers requests on so many hosts, with the steps of a script, if there is one.
func play(t *testing.T, hosts int, s replay.Settings) (*replay.Result, error) {
	t.Helper()
	m, err := model.Synthetic("tiny", 1)
	if err != nil {
		t.Fatal(err)
	}
	if s.Cluster, err = clustertest.Settings(t.Context(), m, tensor.BF16, schemas.HopsUnacked); err != nil {
		t.Fatal(err)
	}
	s.Cluster.Count["expert"], s.Cluster.Services.Attention.Microbatches = hosts, 1
	s.Every, s.Progress = 20*time.Millisecond, func(string, ...any) {}
	return replay.Run(t.Context(), s)
}

// Steps of another run are made again row by row, on as many hosts as there are, with the
// same tokens.
func TestScript(t *testing.T) {
	requests, err := mix().Phases([]int{0, 1}, 100*time.Millisecond, 0, 5*time.Millisecond, 12, 8)
	if err != nil {
		t.Fatal(err)
	}
	first, err := play(t, 1, replay.Settings{Requests: requests})
	if err != nil || first.Failed() != nil {
		t.Fatal(err, first.Failed())
	}
	script := first.Script()
	for _, paced := range []bool{false, true} {
		again, err := play(t, 2, replay.Settings{Requests: requests, Script: script, Paced: paced})
		if err != nil || again.Failed() != nil {
			t.Fatal(err, again.Failed())
		}
		made := again.Script()
		if len(made) != len(script) || len(made) == 0 {
			t.Fatalf("%d steps, %d in the first run", len(made), len(script))
		}
		for i := range made {
			if !reflect.DeepEqual(made[i].Parts, script[i].Parts) || paced && made[i].At < script[i].At {
				t.Errorf("paced %v: step %d is %+v, was %+v", paced, i, made[i], script[i])
			}
		}
		for i := range again.Answers {
			if !slices.Equal(again.Answers[i].Tokens, first.Answers[i].Tokens) {
				t.Errorf("request %d: %v, in the first run %v", i, again.Answers[i].Tokens, first.Answers[i].Tokens)
			}
		}
	}
}

// A script whose steps cannot be made ends the run with an error that names step and request.
func TestScriptFails(t *testing.T) {
	requests := []replay.Request{{IDs: []uint32{1, 2}, Tokens: 200, Seed: 1}, {At: time.Second, IDs: []uint32{3}, Tokens: 4, Seed: 2}}
	const first = "replay-000000"
	for _, tc := range []struct {
		name   string
		script []replay.Scripted
		cancel bool
		step   int // 0: any
	}{
		{"another prompt", []replay.Scripted{{Parts: []replay.Rows{{Request: first, Rows: 5}}}}, false, 1},
		{"a request that is cancelled", []replay.Scripted{
			{Parts: []replay.Rows{{Request: first, Rows: 2}}}, {Parts: []replay.Rows{{Request: "replay-000001", Rows: 1}, {Request: first, First: 2, Rows: 1}}},
		}, true, 0},
	} {
		s := replay.Settings{Requests: requests, Script: tc.script}
		if tc.cancel {
			s.Disturb = func(ctx context.Context, y *cluster.Cluster) { cancelWhenBegun(ctx, t, y, first) }
		}
		_, err := play(t, 1, s)
		var failed *replay.ScriptError
		if !errors.As(err, &failed) || tc.step != 0 && failed.Step != tc.step || failed.Request != first {
			t.Errorf("%s: %v", tc.name, err)
		}
	}
}

// cancelWhenBegun cancels a request again and again, as it may not have come yet.
func cancelWhenBegun(ctx context.Context, t *testing.T, y *cluster.Cluster, request string) {
	c, stop, err := y.Client(ctx)
	if err != nil {
		t.Error(err)
		return
	}
	defer stop()
	for ctx.Err() == nil {
		_ = c.Cancel(request) // else the next time
		select {
		case <-ctx.Done():
		case <-time.After(50 * time.Millisecond):
		}
	}
}
