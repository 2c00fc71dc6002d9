package scaling

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/switchyard/switchyard/loadtest/fleet"
	"github.com/switchyard/switchyard/pkg/request/client"
	pb "github.com/switchyard/switchyard/schemas/switchyard/v1"
)

// phase is a part of a run: requests of a topic at a mean rate, at random times.
type phase struct {
	name   string
	length time.Duration
	rate   float64 // requests a second
	topics []string
}

var phases = []phase{
	{"steady", 15 * time.Second, 2, topics[:1]},
	{"burst", 35 * time.Second, 5, topics},
	{"topic", 15 * time.Second, 5, topics[2:]},
}

// topics are beginnings of texts that go to other experts.
var topics = []string{
	"The train was late again and", "func main() {\n\tfor i := range", "FAUST. Habe nun, ach! Philosophie,",
}

const (
	// leastTokens and mostTokens are of an answer.
	leastTokens, mostTokens = 24, 64
	// lostAfter is when a request counts as failed.
	lostAfter = 2 * time.Minute
)

// answer is when a request's tokens came.
type answer struct {
	phase int
	sent  time.Time
	came  []time.Time
	err   error
}

// moment is what a pipeline's metrics said when a phase began.
type moment struct {
	at      time.Time
	metrics map[string]float64
}

// offer sends the phases' requests and waits for all answers.
func offer(t *testing.T, addr, metrics string, seed uint64) measured {
	t.Helper()
	nc, err := nats.Connect("nats://" + addr)
	if err != nil {
		t.Fatal(err)
	}
	defer nc.Close()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	c, dice := client.New(nc, client.Settings{}), rand.New(rand.NewPCG(seed, 1))
	var (
		asking  sync.WaitGroup
		mu      sync.Mutex
		all     []answer
		moments []moment
	)
	for i, p := range phases {
		moments = append(moments, look(ctx, t, metrics))
		end := time.Now().Add(p.length)
		for at := time.Now().Add(pause(dice, p.rate)); at.Before(end); at = at.Add(pause(dice, p.rate)) {
			time.Sleep(time.Until(at))
			q := prompt(dice, p.topics)
			asking.Go(func() {
				a := ask(ctx, c, q)
				a.phase = i
				mu.Lock()
				defer mu.Unlock()
				all = append(all, a)
			})
		}
		time.Sleep(time.Until(end))
	}
	moments = append(moments, look(ctx, t, metrics))
	asking.Wait()
	for _, a := range all {
		if a.err != nil {
			t.Error(a.err)
		}
	}
	return measure(all, moments)
}

func pause(dice *rand.Rand, rate float64) time.Duration {
	return time.Duration(dice.ExpFloat64() / rate * float64(time.Second))
}

func prompt(dice *rand.Rand, topics []string) *pb.Prompt {
	text, n, seed := topics[dice.IntN(len(topics))], int32(leastTokens+dice.IntN(mostTokens-leastTokens+1)), dice.Uint32()
	warmth := 0.8
	return &pb.Prompt{Text: text, MaxTokens: &n, Seed: &seed, Temperature: &warmth, IgnoreEos: true}
}

func look(ctx context.Context, t *testing.T, addr string) moment {
	t.Helper()
	m, err := fleet.Metrics(ctx, addr)
	if err != nil {
		t.Fatal(err)
	}
	return moment{time.Now(), m}
}

// ask reads the answer to a prompt; its error says which prompt it was.
func ask(ctx context.Context, c *client.Client, q *pb.Prompt) (a answer) {
	ctx, cancel := context.WithTimeout(ctx, lostAfter)
	defer cancel()
	a.sent = time.Now()
	s, err := c.Prompt(ctx, q)
	if err != nil {
		a.err = fmt.Errorf("sending %q: %w", q.GetText(), err)
		return a
	}
	defer s.Close()
	for chunk, err := range s.Chunks() {
		if err == nil {
			err = client.Failure(chunk)
		}
		if err != nil {
			a.err = fmt.Errorf("the answer to %q after %d tokens: %w", q.GetText(), len(a.came), err)
			return a
		}
		for range chunk.TokenIds {
			a.came = append(a.came, time.Now())
		}
	}
	return a
}
