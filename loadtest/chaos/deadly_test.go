package chaos

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"
	"google.golang.org/protobuf/proto"

	"github.com/switchyard/switchyard/loadtest/fleet"
	"github.com/switchyard/switchyard/pkg/request/client"
	"github.com/switchyard/switchyard/schemas"
	pb "github.com/switchyard/switchyard/schemas/switchyard/v1"
)

// mostDeaths is how many processes one request may take down: two owners beside whatever
// else they have, which is when it becomes doubtful, and two that step it alone.
const mostDeaths = 4

// A request kills every attention replica that makes its first token, whichever that is.
// It is given up after a few, with a dead letter, and the others get all of their tokens.
func TestDeadlyRequest(t *testing.T) {
	if wanted(t) == short {
		t.Skip("this takes a minute: set SWITCHYARD_CHAOS to 1 or long")
	}
	y := startPipeline(t, fleet.BuildDeadly(t), "unacked")
	y.Scale(2, 2)
	y.alone()
	var deaths int
	var end error
	r := y.batch("beside-deadly", func() { deaths, end = y.deadly() })
	t.Logf("%d processes died; %d requests were open, the longest stall was %v", deaths, r.open, r.stall)
	if deaths < 2 || deaths > mostDeaths {
		t.Errorf("%d processes died; it is to be 2 to %d", deaths, mostDeaths)
	}
	var refused *client.Error
	if !errors.As(end, &refused) || refused.Code != client.CodeInternal || !strings.Contains(refused.Message, "worked on it alone") {
		t.Errorf("the request ended in %v", end)
	}
	y.buried(fleet.Deadly + "1")
	y.batch("after-deadly", nil)
}

// deadly asks for what kills, and has other replicas take the places of those that have
// died, until it has ended.
func (y *pipeline) deadly() (deaths int, end error) {
	ctx, cancel := context.WithTimeout(y.T.Context(), hang)
	defer cancel()
	ended := make(chan error, 1)
	go func() {
		stream, err := y.load.client.Prompt(ctx, &pb.Prompt{Text: texts[0], RequestId: fleet.Deadly + "1", MaxTokens: proto.Int32(tokens), IgnoreEos: true})
		if err == nil {
			_, err = collect(stream, func(int) {})
		}
		ended <- err
	}()
	for {
		select {
		case end = <-ended:
			return deaths + y.Replace("attention"), end
		case <-time.After(50 * time.Millisecond):
			deaths += y.Replace("attention")
		}
	}
}

// buried wants one dead letter, of a request that crashed its owners.
func (y *pipeline) buried(request string) {
	y.T.Helper()
	js, err := jetstream.New(connect(y.T, y.URL()))
	if err != nil {
		y.T.Fatal(err)
	}
	names := schemas.NewSubjects(schemas.DefaultPrefix, "demo")
	dead, err := js.Stream(y.T.Context(), schemas.Streams{Subjects: names}.Dead().Name)
	if err != nil {
		y.T.Fatal(err)
	}
	if n := dead.CachedInfo().State.Msgs; n != 1 {
		y.T.Errorf("%d dead letters", n)
	}
	m, err := dead.GetLastMsgForSubject(y.T.Context(), names.Dead("sequence")+".crash")
	letter := &pb.DeadLetter{}
	if err == nil {
		err = proto.Unmarshal(m.Data, letter)
	}
	if err != nil || !strings.Contains(string(letter.Body), request) {
		y.T.Errorf("no dead letter has the request: %v", err)
	}
}
