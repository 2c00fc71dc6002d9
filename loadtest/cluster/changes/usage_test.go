package changes

import (
	"math"
	"sync"
	"testing"

	"github.com/nats-io/nats.go"
	"google.golang.org/protobuf/proto"

	"github.com/switchyard/switchyard/internal/testkit"
	"github.com/switchyard/switchyard/pkg/compute/goldens"
	"github.com/switchyard/switchyard/pkg/control/members"
	"github.com/switchyard/switchyard/pkg/request/client"
	pb "github.com/switchyard/switchyard/schemas/switchyard/v1"
	"github.com/switchyard/switchyard/services/switchyard/cluster/clustertest"
	"github.com/switchyard/switchyard/services/switchyard/cluster/clustertest/compared"
)

// hostSums adds up what the hosts of a pipeline say among the members.
func hostSums(t *testing.T, y clustertest.Cluster) func() map[string]float64 {
	t.Helper()
	told := y.Told(t)
	return func() map[string]float64 {
		sums := map[string]float64{}
		for _, m := range told("expert") {
			for stat, v := range m.Stats {
				sums[stat] += v
			}
		}
		return sums
	}
}

// watchReissues returns what counts the rows that attention has issued again from now on.
func watchReissues(t *testing.T, y clustertest.Cluster) func() int {
	t.Helper()
	heard := make(chan *nats.Msg, 1<<14)
	nc, s := y.Conn(t).NATS(), y.Settings.Node.Names().Subjects
	flush := func() {
		t.Helper()
		if err := nc.FlushTimeout(testkit.Patience); err != nil {
			t.Fatal(err)
		}
	}
	for _, subject := range []string{s.AnyHidden(), s.AnyGate()} {
		if _, err := nc.ChanSubscribe(subject, heard); err != nil {
			t.Fatal(err)
		}
	}
	flush()
	again := 0
	return func() int {
		t.Helper()
		flush()
		for range len(heard) {
			if h := (&pb.Hidden{}); proto.Unmarshal((<-heard).Data, h) == nil && h.Key.GetAttempt() > 0 {
				again++
			}
		}
		return again
	}
}

// lastChunk is that of a stream.
func lastChunk(s *client.Stream, err error) (last *pb.Chunk, _ error) {
	if err != nil {
		return nil, err
	}
	for chunk, err := range s.Chunks() {
		if err != nil {
			return nil, err
		}
		last = chunk
	}
	return last, nil
}

func prompted(tokens int32, i, vocab int) *pb.Prompt {
	return &pb.Prompt{InputIds: compared.PromptIDs(i, compared.PromptTokens, vocab), MaxTokens: &tokens, IgnoreEos: true}
}

// What requests are told that they took of paced hosts' memory is together what rows took
// there, and what is left of all that hosts held was idle. Replays tell the same.
func TestRequestsShares(t *testing.T) {
	t.Parallel()
	const requests = 6
	y := clustertest.Start(t, clustertest.Open(t, goldens.Dir("mixtral")), clustertest.Hosts(2), clustertest.Context(compared.Positions),
		clustertest.Paced(t, "a6000-mixtral"))
	c, reissues := y.Producer, watchReissues(t, y)
	vocab, last := y.Settings.Node.Shared.Model.Spec.Vocab, make([]*pb.Chunk, requests)
	var asking sync.WaitGroup
	for i := range requests {
		asking.Go(func() {
			var err error
			if last[i], err = lastChunk(c.Prompt(t.Context(), prompted(compared.AnswerTokens, i, vocab))); err != nil {
				t.Error(err)
			}
		})
	}
	asking.Wait()
	if t.Failed() {
		t.FailNow()
	}
	sum := 0.0
	for _, chunk := range last {
		u := chunk.Usage
		if u.ExpertGbS == nil || !(*u.ExpertGbS > 0) || u.GetColdStarts() != 0 {
			t.Errorf("usage %v", u)
		}
		sum += u.GetExpertGbS()
		again, err := lastChunk(c.Resume(t.Context(), chunk.RequestId, 0))
		if err != nil || !proto.Equal(again.Usage, u) {
			t.Errorf("a replay has usage %v, the answer %v; %v", again.GetUsage(), u, err)
		}
	}
	told := hostSums(t, y)
	var sums map[string]float64
	testkit.Eventually(t, "hosts' sums", func() bool {
		sums = told()
		return sums[members.HostTaken] >= sum*(1-1e-5)
	})
	taken := sums[members.HostTaken]
	if reissues() == 0 && math.Abs(taken-sum) > 1e-5*sum {
		t.Errorf("requests took %v GB·s, hosts say %v", sum, taken)
	}
	if taken > sums[members.HostHeld] {
		t.Errorf("rows took %v GB·s of %v", taken, sums[members.HostHeld])
	}
}

// A cold start is in the usage of the request whose rows waited for it, once.
func TestColdStartsOnce(t *testing.T) {
	t.Parallel()
	e := startElastic(t)
	e.write(e.each(1, pb.Want_WANT_COLD))
	e.inUse()
	for _, l := range e.layers {
		e.asleep(l)
	}
	told, reissues := hostSums(t, e.y), watchReissues(t, e.y)
	before := told()["cold_starts_total"]
	chunk, err := lastChunk(e.q.Client.Prompt(t.Context(), prompted(1, 0, e.q.Vocab)))
	if err != nil {
		t.Fatal(err)
	}
	var sums map[string]float64
	got := float64(chunk.Usage.GetColdStarts())
	testkit.Eventually(t, "hosts' cold starts", func() bool {
		sums = told()
		return sums["cold_starts_total"]-before >= got
	})
	if starts := sums["cold_starts_total"] - before; got == 0 || reissues() == 0 && got != starts {
		t.Errorf("%v cold starts of %v", got, starts)
	}
}
