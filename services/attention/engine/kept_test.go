package engine

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/switchyard/switchyard/pkg/compute/grammar"
	"github.com/switchyard/switchyard/pkg/request/tokenlog"
	"github.com/switchyard/switchyard/schemas"
	pb "github.com/switchyard/switchyard/schemas/switchyard/v1"
)

// word is what a token of the test's model stands for.
func word(id uint32, _ bool) []byte { return fmt.Appendf(nil, "%d,", id) }

// keepTo has a sequence keep to a regular expression over such words.
func keepTo(t *testing.T, s *Sequence, expression string) {
	t.Helper()
	keepToSpec(t, s, grammar.Spec{Regex: expression})
}

func keepToSpec(t *testing.T, s *Sequence, spec grammar.Spec) {
	t.Helper()
	c, err := grammar.NewSet(320, word).Begin(spec)
	if err != nil {
		t.Fatal(err)
	}
	s.Keep(c, word)
	s.seq.StopTokenIds, s.params.MinTokens, s.params.Ends = []uint32{9}, 0, []uint32{9}
}

// served is the log of a request that keeps to an expression, from what its log has.
func keeping(t *testing.T, expression string, before []*pb.Record) []*pb.Record {
	t.Helper()
	b := realBench(t, 16)
	s := b.ask("r", 12, 8, "")
	keepTo(t, s, expression)
	began := time.Unix(1000, 0)
	history := []tokenlog.Entry{
		{Record: &pb.Record{Kind: &pb.Record_Accept{Accept: &pb.Accept{}}}, Time: began}, {Record: &pb.Record{Epoch: 1, Kind: &pb.Record_Claim{}}, Time: began},
	}
	for _, r := range before {
		history = append(history, tokenlog.Entry{Record: r, Time: began})
	}
	s.restore(history, time.Now())
	b.add(s)
	for b.compute() {
	}
	return append(slices.Clone(before), book(s).records...)
}

func wordsOf(records []*pb.Record) (text string, end *pb.Terminal) {
	var b strings.Builder
	for _, r := range records {
		if token := r.GetToken(); token != nil && !token.Stop {
			b.Write(word(token.Id, false))
		}
		if r.GetTerminal() != nil {
			end = r.GetTerminal()
		}
	}
	return b.String(), end
}

// An answer keeps to its grammar, ends where that lets it, and goes on with another owner as
// it would have with the first.
func TestKept(t *testing.T) {
	const expression = `(1\d,2\d\d,){2,3}`
	want := keeping(t, expression, nil)
	text, end := wordsOf(want)
	if n := len(strings.Split(text, ",")) - 1; n != 4 && n != 6 || end.GetFinishReason() != "stop" {
		t.Fatalf("%q, %v", text, end)
	}
	for i, part := range strings.Split(strings.TrimSuffix(text, ","), ",") {
		if len(part) != 2+i%2 || part[0] != byte('1'+i%2) {
			t.Errorf("%q does not keep to it", text)
		}
	}
	for n := range want {
		if got := keeping(t, expression, want[:n]); !same(got, want) {
			t.Errorf("taken over after %d records: %v\nwant %v", n, got, want)
		}
	}
}

// Where no token goes on, the request ends by an error, after the tokens that there are.
func TestStuck(t *testing.T) {
	text, end := wordsOf(keeping(t, `1\d,x`, nil))
	if len(text) != 3 || end.GetError().GetCode() != "bad_request" || !strings.Contains(end.GetError().GetMessage(), "no token") {
		t.Errorf("%q, %v", text, end)
	}
}

// A sequence whose grammar takes time does not step before its mask is there, and has the tokens then that it
// would have had. The others step meanwhile.
func TestSitsOut(t *testing.T) {
	spec := grammar.Spec{EBNF: "root ::= s\ns ::= [0-9,] s s | [1,] s [0-9] | [0-9,]\n"}
	run := func(names ...string) (records []*pb.Record, sat, meanwhile int) {
		b := realBench(t, 16)
		for _, name := range names {
			s := b.ask(name, 12, 8, "")
			if name == "r" {
				keepToSpec(t, s, spec)
			}
			b.add(s)
		}
		slow := b.own.byRequest["r"]
		for {
			for b.compute() {
				if slow.away {
					meanwhile++
				}
			}
			s := b.masks.next()
			if s == nil {
				return book(slow).records, sat, meanwhile
			}
			sat++
			s.cursor.Read(s.newest)
			s.cursor.Mask()
			b.followed(s)
		}
	}
	want, sat, _ := run("r")
	got, _, meanwhile := run("r", "other")
	if text, _ := wordsOf(want); text == "" || sat == 0 || meanwhile == 0 || !same(got, want) {
		t.Errorf("%q; it sat out %d times, and others made %d steps; %v\nwant %v", text, sat, meanwhile, got, want)
	}
}

// A grammar that takes too long ends its own request, and says what the bound is.
func TestGrammarOutOfWork(t *testing.T) {
	b := realBench(t, 16)
	s := b.ask("r", 12, 40, "")
	keepToSpec(t, s, grammar.Spec{EBNF: "root ::= s\ns ::= [0-9,] s [0-5] | [0-9,] s [3-9] | [0-9,] s [1-7,] | [0-9,] s [0-9,] | [2-9] s [0-8,] | [0-9,]\n"})
	b.add(s)
	for range 40 {
		for b.compute() {
		}
		if m := b.masks.next(); m != nil {
			m.cursor.Read(m.newest)
			m.cursor.Mask()
			b.followed(m)
		}
	}
	if _, end := wordsOf(book(s).records); end.GetError().GetCode() != "bad_request" || !strings.Contains(end.GetError().GetMessage(), "steps that a token may take") {
		t.Errorf("%v", end)
	}
}

// Tenants that wait for masks have their turns.
func TestMasksTurns(t *testing.T) {
	m, got := newMasks(), ""
	for _, tenant := range strings.Split("a a a b a c b", " ") {
		m.ask(&Sequence{flow: schemas.Flow{Tenant: tenant}})
	}
	for s := m.next(); s != nil; s = m.next() {
		got += s.flow.Tenant
	}
	if got != "abcabaa" {
		t.Error(got)
	}
}
