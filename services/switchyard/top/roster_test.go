package top

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/switchyard/switchyard/pkg/control/members"
	pb "github.com/switchyard/switchyard/schemas/switchyard/v1"
)

// Who lives is known by who renews, whatever the bucket held.
func TestRoster(t *testing.T) {
	began := time.Unix(1000, 0)
	r := newRoster(began)
	ids := func(now time.Time) string {
		var out []string
		for _, m := range membersOf(r, now) {
			out = append(out, m.ID)
		}
		return strings.Join(out, " ")
	}
	m := func(id string) *pb.Member {
		service, _, _ := strings.Cut(id, "-")
		return &pb.Member{Id: id, Service: service}
	}
	for _, id := range []string{"gate-dead", "gate-here", "tokenizer-here"} {
		r.hear(m(id), false, began)
	}
	for _, tt := range []struct {
		name    string
		do      func(now time.Time)
		after   time.Duration
		alive   string
		settled bool
	}{
		{"what the bucket held", nil, 0, "tokenizer-here gate-dead gate-here", false},
		{"two renew", func(now time.Time) { r.hear(m("gate-here"), true, now); r.hear(m("tokenizer-here"), true, now) }, members.Interval, "tokenizer-here gate-dead gate-here", false},
		{"the third never does", nil, neverHeard + 1, "tokenizer-here gate-here", true},
		{"one is silent", func(now time.Time) { r.hear(m("gate-here"), true, now) }, silentTooLong + members.Interval + 1, "gate-here", true},
		{"one comes", func(now time.Time) { r.hear(m("expert-new"), true, now) }, silentTooLong + members.Interval + 1, "gate-here expert-new", false},
		{"a key is erased", func(time.Time) { r.erase("gate-here"); r.erase("nobody") }, silentTooLong + members.Interval + 1, "expert-new", false},
		{"nobody could be heard", r.forgive, silentTooLong + 2*silentTooLong, "expert-new", false},
	} {
		now := began.Add(tt.after)
		if tt.do != nil {
			tt.do(now)
		}
		if got := ids(now); got != tt.alive || r.settled(now) != tt.settled {
			t.Errorf("%s: %q, settled %v; want %q, %v", tt.name, got, r.settled(now), tt.alive, tt.settled)
		}
	}
}

// Rates are by the replica's own clock, over the last seconds; what began anew has none yet.
func TestRates(t *testing.T) {
	r, at := newRoster(time.Unix(1000, 0)), time.Unix(1000, 0)
	say := func(uptime, tokens float64) Member {
		at = at.Add(time.Second) // messages may come late
		r.hear(&pb.Member{Id: "attention-1", Service: "attention", UptimeSeconds: uptime, Stats: map[string]float64{members.Tokens: tokens}}, true, at)
		return membersOf(r, at)[0]
	}
	for _, tt := range []struct{ uptime, tokens, rate, over float64 }{
		{10, 1000, 0, 0},
		{12, 1100, 50, 2},
		{14, 1100, 25, 4},
		{1, 5, 0, 0}, // it was made anew
		{3, 25, 10, 2},
	} {
		m := say(tt.uptime, tt.tokens)
		if m.Rates[members.Tokens] != tt.rate || m.RateSeconds != tt.over {
			t.Errorf("after %v s and %v tokens: %v/s over %v s, want %v over %v", tt.uptime, tt.tokens, m.Rates[members.Tokens], m.RateSeconds, tt.rate, tt.over)
		}
	}
	for i := range 200 {
		say(4+float64(i)/10, 25+float64(i))
	}
	if n := len(r.seen["attention-1"].looks); n > maxLooks {
		t.Errorf("%d looks are kept", n)
	}
	// Of versions that say no age, rates are by this clock.
	old := newRoster(at)
	for i := range 2 {
		old.hear(&pb.Member{Id: "a", Service: "attention", Stats: map[string]float64{members.Tokens: float64(30 * i)}}, true, at.Add(time.Duration(i)*3*time.Second))
	}
	if m := membersOf(old, at.Add(3*time.Second))[0]; m.Rates[members.Tokens] != 10 || pid(m.PID) != "-" || uptime(m.UptimeSeconds) != "-" {
		t.Errorf("%+v", m)
	}
}

// Whatever a record says, it is shown in few characters, and without moving the cursor.
func FuzzMember(f *testing.F) {
	body, err := proto.Marshal(&pb.Member{Id: "gate-1", Service: "gate\x1b[2J", Host: "ä世\n", Trouble: "\u202e", UptimeSeconds: 1e300, Stats: map[string]float64{members.Tokens: 1e308}})
	if err != nil {
		f.Fatal(err)
	}
	f.Add(body)
	f.Fuzz(func(t *testing.T, body []byte) {
		m := decode("gate-1", body)
		if m == nil {
			return
		}
		r := newRoster(time.Unix(0, 0))
		r.hear(m, false, time.Unix(0, 0))
		r.hear(m, true, time.Unix(1, 0))
		s := &Snapshot{Model: "demo", Members: membersOf(r, time.Unix(1, 0))}
		s.judge()
		for _, l := range NewScreen().Look(s, nil, nil, 80, 24) {
			if strings.ContainsFunc(l.Text, func(c rune) bool { return c < ' ' || c == 0x7f || c == 0x202e }) {
				t.Errorf("%q", l.Text)
			}
		}
	})
}

func TestShown(t *testing.T) {
	n := func(v float64) *float64 { return &v }
	for want, got := range map[string]string{
		"-": number(nil), "0": number(n(0)), "0.5": number(n(0.5)), "9.9": number(n(9.94)), "54": number(n(54.4)), "99999": number(n(99999)), "576k": number(n(576_000)), "1.5M": number(n(1.5e6)), "2.0G": number(n(2e9)),
		"59s": uptime(59.9), "1m05s": uptime(65), "1h01m": uptime(3700), "3d04h": uptime(76*3600 + 5),
		"expert 3": experts([]int{3}), "experts 0-2, 4, 8-9": experts([]int{0, 1, 2, 4, 8, 9}),
	} {
		if got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
	if got := fmt.Sprint(wrap([]string{"one", "two", "three"}, 9)); got != "[one  two three]" {
		t.Error(got)
	}
}
