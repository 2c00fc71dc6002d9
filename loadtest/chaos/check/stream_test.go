package check

import (
	"encoding/json"
	"fmt"
	"reflect"
	"testing"
	"time"

	"pgregory.net/rapid"
)

const tokens = 5

// chunk is the i-th of a request's answer.
func chunk(i int, change ...func(map[string]any)) []byte {
	c := map[string]any{"request_id": "r", "index": i, "text": fmt.Sprint(i), "token_ids": []int{i}, "finish_reason": "", "seed": 3, "timings": nil, "error": nil}
	if i == tokens-1 {
		c["finish_reason"] = Whole
	}
	for _, f := range change {
		f(c)
	}
	body, err := json.Marshal(c)
	if err != nil {
		panic(err)
	}
	return body
}

func set(key string, value any) func(map[string]any) {
	return func(c map[string]any) { c[key] = value }
}

// failed is an end by an error.
func failed(i int, code string) []byte {
	return chunk(i, set("token_ids", nil), set("finish_reason", "error"), set("error", map[string]any{"code": code, "message": "why"}))
}

func reference(t testing.TB) (want []string) {
	t.Helper()
	for i := range tokens {
		c, err := Decode(chunk(i))
		if err != nil {
			t.Fatal(err)
		}
		want = append(want, c.Content())
	}
	return want
}

func TestJudge(t *testing.T) {
	all := [][]byte{chunk(0), chunk(1), chunk(2), chunk(3), chunk(4)}
	cancelled := chunk(2, set("finish_reason", "cancelled"))
	for _, c := range []struct {
		name   string
		chunks [][]byte
		ends   []string
		want   []string
	}{
		{"whole", all, nil, nil},
		{"repeated", [][]byte{all[0], all[1], all[0], all[1], all[2], all[3], all[4], all[4]}, nil, nil},
		{"overtaken", [][]byte{all[0], all[2], all[1], all[4], all[3]}, nil, nil},
		{"lost", [][]byte{all[0], all[1], all[3], all[4]}, nil, []string{Lost}},
		{"end lost", all[:4], nil, []string{Lost}},
		{"nothing", nil, nil, []string{Lost}},
		{"other bytes", [][]byte{all[0], chunk(0, set("timings", 1)), all[1], all[2], all[3], all[4]}, nil, []string{Duplicated}},
		{"other token", [][]byte{all[0], chunk(1, set("token_ids", []int{9})), all[2], all[3], all[4]}, nil, []string{Changed}},
		{"other text at the end", [][]byte{all[0], all[1], all[2], all[3], chunk(4, set("text", "x"))}, nil, []string{Changed}},
		{"another's", [][]byte{chunk(0, set("request_id", "s")), all[0], all[1], all[2], all[3], all[4]}, nil, []string{Garbage}},
		{"no JSON", append([][]byte{[]byte("{")}, all...), nil, []string{Garbage}},
		{"cancelled", [][]byte{all[0], all[1], cancelled}, []string{"cancelled"}, nil},
		{"cancelled by nobody", [][]byte{all[0], all[1], cancelled}, nil, []string{WrongEnd}},
		{"cancelled with a gap", [][]byte{all[0], cancelled}, []string{"cancelled"}, []string{Lost}},
		{"token behind the end", [][]byte{all[0], all[1], cancelled, all[3]}, []string{"cancelled"}, []string{EndedTwice}},
		{"end before a token", [][]byte{all[0], all[1], all[3], cancelled}, []string{"cancelled"}, []string{EndedTwice}},
		{"two ends", [][]byte{all[0], all[1], failed(2, "internal"), failed(3, "internal")}, []string{"internal"}, []string{EndedTwice, EndedTwice}},
		{"two ends at one index", [][]byte{all[0], all[1], cancelled, failed(2, "internal")}, []string{"cancelled"}, []string{Duplicated}},
		{"failed", [][]byte{all[0], failed(1, "internal")}, []string{"cancelled"}, []string{WrongEnd}},
		{"too late", [][]byte{all[0], failed(1, "deadline_exceeded")}, []string{"deadline_exceeded"}, nil},
		{"refused", [][]byte{failed(-1, "overloaded")}, nil, []string{WrongEnd}},
		{"refused after the end", append(all[:5:5], failed(-1, "overloaded")), nil, []string{EndedTwice}},
		{"more than there is", append(all[:4:4], chunk(4, set("finish_reason", "")), chunk(5)), nil, []string{Changed, Changed, Lost}},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := New(Expect{Request: "r", Want: reference(t), Ends: c.ends}, 0)
			for i, body := range c.chunks {
				s.Take(time.Duration(i), body)
			}
			s.Close(time.Minute)
			var got []string
			for _, v := range s.Violations() {
				got = append(got, v.What)
			}
			if !reflect.DeepEqual(got, c.want) {
				t.Errorf("got %v, want %v", s.Violations(), c.want)
			}
		})
	}
}

// A request may end for its deadline when that has passed, and not before.
func TestDeadline(t *testing.T) {
	for at, want := range map[time.Duration]int{10 * time.Second: 0, 9 * time.Second: 0, 8 * time.Second: 1} {
		s := New(Expect{Request: "r", Want: reference(t), Ends: []string{Late}, Deadline: 10 * time.Second}, 0)
		s.Take(at, failed(0, Late))
		if got := s.Violations(); len(got) != want {
			t.Errorf("at %v: %v", at, got)
		}
	}
}

func TestStalls(t *testing.T) {
	s := New(Expect{Request: "r", Want: reference(t)}, time.Second)
	for _, c := range []struct {
		at    time.Duration
		index int
	}{{1500, 0}, {1510, 1}, {3000, 1}, {3500, 2}, {3599, 3}} {
		s.Take(c.at*time.Millisecond, chunk(c.index))
	}
	want := []Stall{
		{Request: "r", From: time.Second, To: 1500 * time.Millisecond, First: true},
		{Request: "r", From: 1510 * time.Millisecond, To: 3500 * time.Millisecond},
	}
	if got := s.Stalls(); !reflect.DeepEqual(got, want) || s.Repeats() != 1 || s.Next() != 4 || s.Done() {
		t.Errorf("got %v, %d repeats, next %d", got, s.Repeats(), s.Next())
	}
}

// A later reading has to bring the same bytes, the times in them too.
func TestAgain(t *testing.T) {
	first := New(Expect{Request: "r", Want: reference(t)}, 0)
	for i := range tokens {
		first.Take(1, chunk(i))
	}
	again := first.Again(2)
	for i := range tokens {
		again.Take(3, chunk(i, set("timings", i/3)))
	}
	again.Close(4)
	if got := again.Violations(); len(got) != 5 || got[0].What != Duplicated || !again.Done() {
		t.Errorf("got %v", got)
	}
	again = first.Again(5)
	if again.Close(6); len(again.Violations()) != 1 || again.Violations()[0].What != Lost {
		t.Errorf("nothing came again: %v", again.Violations())
	}
}

// A reader that asked for the rest alone wants nothing that lies before it.
func TestFrom(t *testing.T) {
	s := New(Expect{Request: "r", Want: reference(t), From: 3}, 0)
	s.Take(1, chunk(3))
	s.Take(2, chunk(4))
	if s.Close(3); !s.Done() || len(s.Violations()) > 0 || s.Ended() != Whole {
		t.Errorf("got %v", s.Violations())
	}
}

// Whatever order chunks come in, and however often: a stream that has all of
// them is whole, and one that lacks some has lost them.
func TestAnyOrder(t *testing.T) {
	want := reference(t)
	rapid.Check(t, func(t *rapid.T) {
		come := rapid.SliceOf(rapid.IntRange(0, tokens-1)).Draw(t, "chunks")
		s, seen := New(Expect{Request: "r", Want: want}, 0), map[int]bool{}
		for _, i := range come {
			s.Take(0, chunk(i))
			seen[i] = true
		}
		s.Close(0)
		if whole := len(seen) == tokens; s.Done() != whole || (len(s.Violations()) == 0) != whole {
			t.Fatalf("with %d of %d chunks it is done: %v, %v", len(seen), tokens, s.Done(), s.Violations())
		}
		if s.Repeats() != len(come)-len(seen) {
			t.Fatalf("%d repeats of %d chunks with %d indices", s.Repeats(), len(come), len(seen))
		}
	})
}

func FuzzTake(f *testing.F) {
	f.Add(chunk(0))
	f.Add(failed(-1, "overloaded"))
	f.Add([]byte(`{"request_id":"r","index":9223372036854775807,"finish_reason":"stop"}`))
	want := reference(f)
	f.Fuzz(func(t *testing.T, body []byte) {
		s := New(Expect{Request: "r", Want: want}, 0)
		s.Take(0, body)
		s.Take(0, body)
		s.Close(time.Second)
		if s.Next() > 1 && s.Done() && s.Ended() == Whole {
			t.Errorf("one chunk is a whole answer: %q", body)
		}
	})
}
