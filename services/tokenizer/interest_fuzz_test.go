package tokenizer

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/switchyard/switchyard/pkg/control/members"
)

// Only another replica that took this very reader over later ends its stream.
func FuzzInterestTaken(f *testing.F) {
	later := fmt.Sprint(time.Now().Add(time.Hour).UnixNano())
	for _, body := range []string{later + " tokenizer-2 inbox", later + " tokenizer-1 inbox", "1 tokenizer-2 inbox", later + " tokenizer-2 other", "x y", ""} {
		f.Add("r", []byte(body))
	}
	f.Fuzz(func(t *testing.T, request string, body []byte) {
		s := &Service{id: "tokenizer-1", streams: newStreams("tokenizer-1", time.Now), view: &members.View{}}
		ctx, _, err := s.streams.open(t.Context(), "r", destination{subject: "inbox"}, false)
		if err != nil {
			t.Fatal(err)
		}
		s.onInterestTaken(&nats.Msg{Subject: "switchyard.interest.demo.taken." + request, Data: body})
		if ctx.Err() == nil {
			return
		}
		parts := strings.Split(string(body), " ")
		if len(parts) != 3 || parts[1] == "tokenizer-1" || parts[2] != "inbox" || !strings.HasSuffix("."+request, ".r") {
			t.Errorf("%q of %q ended the stream", body, request)
		}
	})
}
