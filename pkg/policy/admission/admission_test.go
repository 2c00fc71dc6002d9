package admission

import (
	"fmt"
	"math"
	"slices"
	"testing"

	"pgregory.net/rapid"
)

// What gets done while nobody waits says nothing; what got done lately says most.
func TestPace(t *testing.T) {
	var p Pace
	p.Advance(10, false)
	p.Done(1e6)
	p.Advance(20, true)
	if p.Takes(1) != 0 || p.Each() != 0 {
		t.Errorf("a pace is known that nobody saw: %v", p)
	}
	for i := range 100 { // 100 tokens in 0.1 s each
		p.Advance(20+0.1*float64(i+1), true)
		p.Done(100)
	}
	if got := p.Takes(2000); math.Abs(got-2) > 0.1 {
		t.Errorf("2,000 tokens take %v s, want 2", got)
	}
	if got := p.Each(); math.Abs(got-0.1) > 0.01 {
		t.Errorf("a request takes %v s, want 0.1", got)
	}
	p.Advance(30, false)
	p.Advance(1000, true) // time without anybody waiting does not count
	if got := p.Takes(2000); math.Abs(got-2) > 0.1 {
		t.Errorf("2,000 tokens take %v s, want 2", got)
	}
	for i := range 50 { // half as fast
		p.Advance(1000+float64(i+1), true)
		p.Done(500)
	}
	if got := p.Takes(1000); math.Abs(got-2) > 0.1 {
		t.Errorf("1,000 tokens take %v s, want 2", got)
	}
}

func TestBucket(t *testing.T) {
	var b Bucket
	const rate = 10 // 600 a minute
	if w := b.Wait(0, rate); w != 0 {
		t.Errorf("a full bucket wants %v s", w)
	}
	b.Take(0, rate, 599)
	if w := b.Wait(0, rate); w != 0 {
		t.Errorf("with one left it wants %v s", w)
	}
	b.Take(0, rate, 101) // overdrawn
	if w := b.Wait(0, rate); math.Abs(w-10) > 1e-9 {
		t.Errorf("overdrawn by 100 it wants %v s", w)
	}
	if w := b.Wait(4, rate); math.Abs(w-6) > 1e-9 {
		t.Errorf("4 s later it wants %v s", w)
	}
	if b.Take(5, rate, -60); b.Wait(5, rate) != 0 {
		t.Errorf("with 10 given back too many it wants %v s", b.Wait(5, rate))
	}
	b.Take(5, rate, -1e9)
	b.Take(5, rate, 599)
	if w := b.WaitFor(5, rate, 1); w != 0 {
		t.Errorf("with the one left that is needed it wants %v s", w)
	}
	if w := b.WaitFor(5, rate, 11); math.Abs(w-1) > 1e-6 {
		t.Errorf("with 10 lacking it wants %v s", w)
	}
	if w := b.WaitFor(6, rate, 11); w != 0 {
		t.Errorf("a second later it wants %v s", w)
	}
	if w := b.WaitFor(6, rate, 1e9); math.Abs(w-58.9) > 1e-6 {
		t.Errorf("of more than there can be it wants %v s, when it is full", w)
	}
	if b.Take(5, rate, -1e9); b.spent != 0 {
		t.Errorf("more than full: %v", b.spent)
	}
}

// Nobody takes more in any time than a full bucket, what that time brings, and
// one request; and who comes when he was told finds some.
func TestBucketBound(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var b Bucket
		rate, most := rapid.Float64Range(0.1, 1000).Draw(t, "rate"), 0.0
		now, taken := 0.0, 0.0
		for range rapid.IntRange(1, 100).Draw(t, "requests") {
			now += rapid.Float64Range(0, 20).Draw(t, "pause")
			if w := b.Wait(now, rate); w > 0 {
				now += w + 1e-6*max(1, w)
				if left := b.Wait(now, rate); left > 0 {
					t.Fatalf("told to wait %v s, and then %v s more", w, left)
				}
			}
			work := rapid.Float64Range(1, 5000).Draw(t, "work")
			b.Take(now, rate, work)
			taken, most = taken+work, max(most, work)
			if bound := perMinute*rate + now*rate + most; taken > bound+1e-6*bound {
				t.Fatalf("%v were taken in %v s, bound %v", taken, now, bound)
			}
		}
	})
}

func TestPromises(t *testing.T) {
	var p Promises
	give := func(request string, now, want float64) {
		t.Helper()
		if got := p.Give(request, now, 2, 0.5, 10); math.Abs(got-want) > 1e-9 {
			t.Errorf("%s at %v is to come in %v s, want %v", request, now, got, want)
		}
	}
	give("a", 0, 2)
	give("b", 0, 2.5)
	give("c", 0.5, 2.5)
	give("b", 1, 1.5) // too early: it stays
	if p.Due("a", 1.9) || !p.Due("a", 1.99) || !p.Due("a", 2) || p.Due("nobody", 9) {
		t.Error("promises are not due at their time")
	}
	held := func(request string, now, until float64, want int) {
		t.Helper()
		if n := p.Held(request, now); until == 9 && n != want {
			t.Errorf("%d places are held from %s; want %d", n, request, want)
		}
		if n, work := p.before(until); request == "x" && (n != want || work != float64(10*want)) {
			t.Errorf("%v of work is promised to %d until %v; want that of %d", work, n, until, want)
		}
	}
	held("x", 2.6, 2.6, 2)
	held("x", 2.6, 9, 3)
	held("a", 2.6, 9, 0)
	p.Keep("a")
	p.Keep("nobody")
	give("b", 2.6, 2) // it came in vain: not behind the others again
	give("d", 3.1, 2)
	held("x", 3.1, 3.1, 1)
	held("x", 100, 200, 0)
	if len(p.given) != 0 {
		t.Errorf("%d promises are kept in mind", len(p.given))
	}
	for i := range 1000 {
		if got := p.Give(fmt.Sprint(i), 200, 2, 0.5, 1); got > Horizon {
			t.Fatalf("told to come in %v s", got)
		}
	}
	if got := len(p.given); got != 2*(Horizon-2)+1 {
		t.Errorf("%d promises within %d s", got, Horizon)
	}
}

// Promises of one time are told apart.
func TestPromisesOfOneTime(t *testing.T) {
	var p Promises
	for _, request := range []string{"a", "b", "c"} {
		if got := p.Give(request, 0, 2, 0, 1); got != 2 {
			t.Errorf("%s is to come in %v s, want 2", request, got)
		}
	}
	p.Keep("b")
	if !p.Due("a", 2) || p.Due("b", 2) || !p.Due("c", 2) || p.Held("x", 2) != 2 {
		t.Errorf("left are %v", p.given)
	}
}

// A refusal costs little, however many are promised a time.
func BenchmarkRefuse(b *testing.B) {
	var p Promises
	name := func(i int) string { return fmt.Sprintf("%016d", i) }
	for i := range maxPromises {
		p.Give(name(i), 0, 1, 1.0/maxPromises, 0)
	}
	for i := range b.N {
		p.Held(name(maxPromises+i), 0)
		p.Give(name(maxPromises+i), 0, 1, 1, 0)
	}
}

// arrival is a client in the simulated overload.
type arrival struct {
	at       float64
	request  int
	attempts int
}

// first is who comes next.
func first(all []arrival) (i int) {
	for j := range all {
		if all[j].at < all[i].at {
			i = j
		}
	}
	return i
}

// A queue of 20 that is served at 10 a second gets 30 a second for 15 seconds, all
// of whom come again when they are told: nearly all get in when they do, the
// server never idles, and the order of getting in is about that of coming.
func TestWhoObeysGetsIn(t *testing.T) {
	const rate, queue, offered, lasts = 10.0, 20, 30.0, 15.0
	var p Promises
	var all []arrival
	for i := range int(offered * lasts) {
		all = append(all, arrival{at: float64(i) / offered, request: i})
	}
	waiting, last, idle := 0.0, 0.0, 0.0
	attempts := map[int]int{}
	for turns := 0; len(all) > 0; turns++ {
		if turns > 100_000 {
			t.Fatalf("%d clients come again and again", len(all))
		}
		i := first(all)
		a := all[i]
		all = slices.Delete(all, i, i+1)
		served := (a.at - last) * rate
		idle += max(0, served-waiting)
		waiting, last = max(0, waiting-served), a.at
		a.attempts++
		id := fmt.Sprint(a.request)
		held := p.Held(id, a.at)
		bound := queue - min(float64(held), queue/2)
		if waiting+1 <= bound {
			p.Keep(id)
			waiting++
			attempts[a.attempts]++
			continue
		}
		a.at += p.Give(id, a.at, (waiting+1-bound)/rate, 1/rate, 0)
		all = append(all, a)
	}
	in, again := attempts[1]+attempts[2], 0
	for n, count := range attempts {
		if n > 2 {
			again += count
		}
	}
	if in < 9*again || idle > 1 {
		t.Errorf("%v came in by attempt; the server idled for the time of %.1f requests", attempts, idle)
	}
}
