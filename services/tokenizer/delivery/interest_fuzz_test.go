package delivery

import (
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/switchyard/switchyard/pkg/control/members"
	"github.com/switchyard/switchyard/schemas"
)

// Only another replica that took this very reader over later ends its stream.
func FuzzInterestTaken(f *testing.F) {
	later := fmt.Sprint(time.Now().Add(time.Hour).UnixNano())
	for _, body := range []string{later + " tokenizer-2 inbox", "+" + later + " tokenizer-2 inbox", later + " tokenizer 2 inbox", later + " tokenizer-1 inbox", "1 tokenizer-2 inbox", later + " tokenizer-2 other", "x y", ""} {
		f.Add("r", []byte(body))
	}
	f.Fuzz(func(t *testing.T, request string, body []byte) {
		s := &Replays{common: &common{replica: "tokenizer-1"}, open: newOpenReplays("tokenizer-1", time.Now), kinds: &Kinds{members: &members.View{}}}
		ctx, err := s.open.add(t.Context(), &replay{request: "r", to: Destination{Subject: "inbox"}})
		if err != nil {
			t.Fatal(err)
		}
		later, _ := s.takenOver(&nats.Msg{Subject: "switchyard.interest.demo.taken." + request, Data: body})
		if ctx.Err() == nil {
			return
		}
		if later != nil {
			t.Error("a stream that was ended is said to be the later one")
		}
		parts := strings.Split(string(body), " ")
		if turn, err := strconv.ParseInt(parts[0], 10, 64); err != nil || fmt.Sprint(turn) != parts[0] {
			t.Errorf("%q is a turn", parts[0])
		}
		if len(parts) != 3 || parts[1] == "tokenizer-1" || parts[2] != "inbox" || !strings.HasSuffix("."+request, ".r") {
			t.Errorf("%q of %q ended the stream", body, request)
		}
	})
}

// What is handed on is believed as far as it can be, and only as a replica writes it.
func FuzzHanded(f *testing.F) {
	f.Add("r", []byte(`{"subject":"_INBOX.x","encoding":0,"from":-2147483648,"until":7,"asked":true,"turn":1}`))
	f.Add("r", []byte(`{"subject":"_INBOX.x","encoding":0,"from":1,"turn":1,"stream":"S"}`))
	f.Add("r", []byte(`{"subject":"_INBOX.x","encoding":0,"from":1,"TURN":1}`))
	f.Add("r", []byte(`{"subject":"a","named":true,"encoding":2,"from":3,"turn":9223372036854775807}`))
	f.Add("*", []byte(`{"turn":1}`))
	f.Add("r", []byte(`{"stream":"S","seq":1}`))
	f.Fuzz(func(t *testing.T, request string, body []byte) {
		st, err := parseHanded(request, body)
		if err != nil {
			return
		}
		if st.turn <= 0 || st.turn > maxTurn || st.to.Origin != Inbox && st.to.Origin != Named || schemas.CheckRequestID(st.request) != nil {
			t.Fatalf("%q was taken as %+v", body, st)
		}
		st.turn--
		if again, err := json.Marshal(st.handed()); err != nil || string(again) != string(body) {
			t.Errorf("%q was taken for %s, error %v", body, again, err)
		}
	})
}
