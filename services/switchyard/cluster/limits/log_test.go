package limits

import (
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"google.golang.org/protobuf/proto"

	"github.com/switchyard/switchyard/internal/testkit"
	"github.com/switchyard/switchyard/pkg/request/client"
	"github.com/switchyard/switchyard/pkg/transport/bus"
	"github.com/switchyard/switchyard/schemas"
	pb "github.com/switchyard/switchyard/schemas/switchyard/v1"
	"github.com/switchyard/switchyard/services/switchyard/cluster"
	"github.com/switchyard/switchyard/services/switchyard/cluster/clustertest"
	"github.com/switchyard/switchyard/services/switchyard/cluster/clustertest/compared"
)

// logged is a pipeline of the demo model whose streams are looked at.
type logged struct {
	clustertest.Cluster
	t     *testing.T
	conn  *bus.Conn
	names schemas.Streams
}

func startLogged(t *testing.T, changes ...clustertest.Change) *logged {
	t.Helper()
	y := clustertest.Start(t, clustertest.Demo(t), changes...)
	return &logged{Cluster: y, t: t, conn: y.Conn(t), names: y.Settings.Node.Names()}
}

// logOf bounds the token log.
func logOf(bytes int64) clustertest.Change {
	return func(s *cluster.Settings) { s.Node.Shared.LogBytes = bytes }
}

// More requests with large scores come at once than a small token log can take.
// Each is answered whole or refused before anything is computed for it, and they leave
// room for small ones.
func TestSmallLog(t *testing.T) {
	t.Parallel()
	s := startLogged(t, logOf(1<<20))
	if err := s.score("alone", 40); err == nil || err.Code != "payload_too_large" || !strings.Contains(err.Message, "1048576") {
		t.Errorf("more than the bound: %v", err)
	}
	var work sync.WaitGroup
	var refused, whole atomic.Int32
	for i := range 16 {
		work.Go(func() {
			switch err := s.score(fmt.Sprint("r", i), 3); {
			case err == nil:
				whole.Add(1)
			case err.Code == "overloaded" && strings.Contains(err.Message, s.names.Tokens().Name) && strings.Contains(err.Message, "1048576"):
				refused.Add(1)
			default:
				t.Errorf("r%d: %v", i, err)
			}
		})
	}
	work.Wait()
	if refused.Load() == 0 || whole.Load() < 4 {
		t.Errorf("%d refused, %d answered", refused.Load(), whole.Load())
	}
	for i := range 8 {
		s.room("small one", func() *client.Error { return s.small(fmt.Sprint("small", i)) })
	}
}

// room asks until there is room: a tokenizer may have ended others before it tells that they need no more.
// Nothing but that may refuse.
func (s *logged) room(what string, ask func() *client.Error) {
	s.t.Helper()
	testkit.Eventually(s.t, "there is room for a "+what, func() bool {
		err := ask()
		if err != nil && err.Code != "overloaded" {
			s.t.Errorf("a %s: %v", what, err)
		}
		return err == nil
	})
}

// score asks for the logits of a prompt and two tokens, small for two tokens.
func (s *logged) score(request string, prompt int) *client.Error {
	s.t.Helper()
	return s.whole(&pb.Prompt{RequestId: request, InputIds: compared.PromptIDs(1, prompt, 8192), MaxTokens: proto.Int32(2), Score: "logits", IgnoreEos: true})
}

func (s *logged) small(request string) *client.Error {
	s.t.Helper()
	return s.whole(&pb.Prompt{RequestId: request, InputIds: compared.PromptIDs(1, 3, 8192), MaxTokens: proto.Int32(2), IgnoreEos: true})
}

// whole asks. A refusal is returned; an answer that is cut off, or has records that
// are gone, is a fault.
func (s *logged) whole(p *pb.Prompt) *client.Error {
	s.t.Helper()
	stream, err := s.Producer.Prompt(s.t.Context(), p)
	chunks := 0
	if err == nil {
		for chunk, failed := range stream.Chunks() {
			if err = failed; err == nil {
				err = client.Failure(chunk)
			}
			if err != nil {
				break
			}
			chunks++
		}
	}
	var refused *client.Error
	switch {
	case err == nil:
		return nil
	case errors.As(err, &refused) && chunks == 0:
		return refused
	}
	s.t.Errorf("%s ended with %v after %d chunks", p.RequestId, err, chunks)
	return nil
}
