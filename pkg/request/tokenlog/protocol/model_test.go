package protocol

import (
	"fmt"
	"slices"
	"strings"

	pb "github.com/switchyard/switchyard/schemas/switchyard/v1"
)

// kind is of a message in a log.
type kind byte

const (
	accept kind = iota
	claim
	token
	begin // of a trial
	over
	end
	crashed // an end because owners went away in trials
	noise
)

// message is one of a log. Equal ones have equal bytes.
type message struct {
	kind         kind
	epoch, index int
	writer       int
}

func (m message) String() string {
	return fmt.Sprintf("%s %d/%d of %d", [...]string{"accept", "claim", "token", "begin", "over", "end", "crashed", "noise"}[m.kind], m.epoch, m.index, m.writer)
}

// record is the message as the log has it.
func (m message) record() *pb.Record {
	r := &pb.Record{Epoch: uint64(m.epoch)}
	switch m.kind {
	case accept:
		r.Kind = &pb.Record_Accept{Accept: opened}
	case claim:
		r.Writer, r.Kind = fmt.Sprint("owner-", m.writer), &pb.Record_Claim{Claim: &pb.Claim{}}
	case token:
		r.Kind = &pb.Record_Token{Token: &pb.Token{Index: int32(m.index), Id: 1}}
	case begin, over:
		r.Kind = &pb.Record_Trial{Trial: &pb.Trial{Over: m.kind == over}}
	case crashed:
		r.Kind = &pb.Record_Terminal{Terminal: &pb.Terminal{FinishReason: "error", Error: &pb.Error{Code: "internal"}}}
	case end:
		reason := "length"
		if m.writer == canceller {
			reason = "cancelled"
		}
		r.Kind = &pb.Record_Terminal{Terminal: &pb.Terminal{FinishReason: reason}}
	}
	return r
}

// phase is what a replica does about the request.
type phase byte

const (
	idle     phase = iota
	claiming       // has read the log up to tail; its claim is under way
	writing        // its claim is stored; a record may be under way
	refusing       // writes the end of what crashes owners
)

// owner is a replica of attention; life tells those before and after a crash apart.
type owner struct {
	phase phase
	life  int
	tail  int // messages of the log that it knows of
	epoch int
	next  int  // index of its next token
	asked bool // a record is under way, or has to be sent again

	doubtful bool // it steps in trials
	trying   bool // the beginning of one is stored
	piece    bool // whose step made no token
}

// canceller is who ends the request from outside, in the place of an owner.
const canceller = 2

// flight is an append that the server has not seen yet.
type flight struct {
	from, life int
	message    message
	behind     int
}

// budget bounds what may happen.
type budget struct{ takes, crashes, losses, noise, cancels, pieces int }

// rules are how owners could be wrong.
type rules struct {
	unguarded         bool // the server takes every append
	conflictIsSuccess bool // as a deduplication window would have it
	conflictIsLoss    bool // without looking whether the record is one's own
	ackEarly          bool // the sequence is acknowledged with the end under way
	staleEpoch        bool // a claim that met a conflict is sent again without reading
	unrecorded        bool // what is doubtful steps without a record
	ownersBlame       bool // every owner that made nothing counts as a crash
	deadly            int  // the token whose step takes the owner down, from 1; 0: none
}

// state is everything at one moment.
type state struct {
	log     []message
	owners  [3]owner // two replicas and the canceller
	flights []flight
	acked   bool   // the request's sequence
	deaths  int    // of owners that stepped what is deadly
	alone   int    // crashes while a trial went on, or may have
	fault   string // what somebody did that is wrong
	left    budget
}

func (s *state) clone() *state {
	c := *s
	c.log, c.flights = slices.Clone(s.log), slices.Clone(s.flights)
	return &c
}

// key is the same for equal states, whatever the order of what is under way.
func (s *state) key() string {
	under := make([]string, len(s.flights))
	for i, f := range s.flights {
		under[i] = string(append(f.message.bytes(), byte(f.from), byte(f.life), byte(f.behind)))
	}
	slices.Sort(under)
	var k []byte
	for _, m := range s.log {
		k = append(k, m.bytes()...)
	}
	for _, o := range s.owners {
		k = append(k, 255, byte(o.phase), byte(o.life), byte(o.tail), byte(o.epoch), byte(o.next), flag(o.asked), flag(o.doubtful), flag(o.trying), flag(o.piece))
	}
	b := s.left
	k = append(k, flag(s.acked), byte(s.deaths), byte(s.alone), byte(b.pieces), byte(b.takes), byte(b.crashes), byte(b.losses), byte(b.noise), byte(b.cancels))
	return string(k) + strings.Join(under, "")
}

func (m message) ends() bool { return m.kind == end || m.kind == crashed }

func (m message) bytes() []byte {
	return []byte{byte(m.kind), byte(m.epoch), byte(m.index), byte(m.writer)}
}

func flag(set bool) byte {
	if set {
		return 1
	}
	return 0
}

// steps are all that can happen in a state.
func (m *model) steps(s *state) (all []step) {
	do := func(name string, change func(*state)) {
		to := s.clone()
		change(to)
		all = append(all, step{name, to})
	}
	for i := range s.owners {
		m.ownerSteps(s, i, do)
	}
	for i, f := range s.flights {
		for _, lost := range []bool{false, true} {
			if lost && s.left.losses == 0 {
				continue
			}
			do(fmt.Sprintf("the server gets %v behind %d; answer lost: %v", f.message, f.behind, lost), func(to *state) { m.serve(to, i, lost) })
		}
	}
	if s.left.noise > 0 {
		do("a stranger writes", func(to *state) {
			to.left.noise--
			to.log = append(to.log, message{kind: noise})
		})
	}
	return all
}

// ownerSteps are what a replica, or the canceller, can do.
func (m *model) ownerSteps(s *state, i int, do func(string, func(*state))) {
	o := s.owners[i]
	switch {
	case o.phase == idle && i == canceller && s.left.cancels > 0:
		do("somebody cancels", func(to *state) {
			to.left.cancels--
			m.take(to, i)
		})
	case o.phase == idle && i != canceller && !s.acked && (s.left.takes > 0 || s.quiet()):
		do(fmt.Sprintf("%d takes the request", i), func(to *state) {
			to.left.takes = max(0, to.left.takes-1)
			m.take(to, i)
		})
	}
	if o.phase == idle {
		return
	}
	if under := s.under(i); o.asked && (under == 0 || under == 1 && s.left.losses > 0) {
		do(fmt.Sprintf("%d sends again", i), func(to *state) {
			to.left.losses -= under // for want of an answer, or too early
			m.send(to, i)
		})
	}
	if i != canceller && s.left.crashes > 0 {
		do(fmt.Sprintf("%d crashes", i), func(to *state) {
			to.left.crashes--
			to.crash(i)
		})
	}
}

// crash takes an owner away. A trial's beginning that is under way may be stored still.
func (s *state) crash(i int) {
	o := s.owners[i]
	if o.trying || o.asked && o.record(i).kind == begin {
		s.alone++
	}
	s.owners[i] = owner{life: o.life + 1}
}

// quiet says that nobody does anything: then the sequence is delivered again.
func (s *state) quiet() bool {
	return len(s.flights) == 0 && !slices.ContainsFunc(s.owners[:], func(o owner) bool { return o.phase != idle })
}

// under is how many appends of an owner the server has not seen.
func (s *state) under(i int) (n int) {
	for _, f := range s.flights {
		if f.from == i && f.life == s.owners[i].life {
			n++
		}
	}
	return n
}

// take reads the log, and sends a claim; the canceller sends the end at once.
func (m *model) take(s *state, i int) {
	o := &s.owners[i]
	c, _ := judge(s.log)
	if c.End() != nil {
		s.acked = true // delivered again, and nothing is left to do
		*o = owner{life: o.life}
		return
	}
	*o = owner{phase: claiming, life: o.life, tail: len(s.log), epoch: count(s.log, claim) + 1, next: int(c.Tokens())}
	if i != canceller && (c.Crashed() || m.rules.ownersBlame && fruitless(s.log) > 1) {
		o.phase = refusing
	}
	m.send(s, i)
}

// fruitless is how many claims came since the last token.
func fruitless(log []message) (n int) {
	for _, m := range log {
		switch m.kind {
		case claim:
			n++
		case token:
			n = 0
		}
	}
	return n
}

// send sends the record that an owner has to write now.
func (m *model) send(s *state, i int) {
	o := &s.owners[i]
	next := o.record(i)
	if next.kind == token && next.index == m.rules.deadly-1 {
		s.deaths++
		s.crash(i)
		return
	}
	o.asked = true
	s.flights = append(s.flights, flight{i, o.life, next, o.tail})
	if m.rules.ackEarly && next.ends() && i != canceller {
		s.acked = true
	}
}

// record is what an owner writes next.
func (o *owner) record(i int) message {
	switch {
	case i == canceller:
		return message{kind: end, writer: i}
	case o.phase == claiming:
		return message{kind: claim, epoch: o.epoch, writer: i}
	case o.phase == refusing:
		return message{kind: crashed, writer: i}
	case o.doubtful && !o.trying:
		return message{kind: begin, epoch: o.epoch, writer: i}
	case o.piece:
		return message{kind: over, epoch: o.epoch, writer: i}
	case o.next < answer:
		return message{kind: token, epoch: o.epoch, index: o.next}
	}
	return message{kind: end, epoch: o.epoch, writer: i}
}

// serve lets the server take an append or refuse it, and its sender hear of it.
func (m *model) serve(s *state, i int, lost bool) {
	f := s.flights[i]
	s.flights = slices.Delete(s.flights, i, i+1)
	ok := f.behind == len(s.log) || m.rules.unguarded
	if ok {
		s.log = append(s.log, f.message)
	}
	o := &s.owners[f.from]
	switch {
	case lost:
		s.left.losses--
	case o.life != f.life || !o.asked || o.record(f.from) != f.message || o.tail != f.behind:
		// nobody waits for this answer any more
	case ok || m.rules.conflictIsSuccess:
		m.stored(s, f.from, f.behind+1)
	default:
		m.conflict(s, f.from)
	}
}

// stored goes on behind a record that is in the log.
func (m *model) stored(s *state, i, tail int) {
	o := &s.owners[i]
	done := o.record(i).kind
	o.tail, o.asked = tail, false
	switch done {
	case claim:
		c, _ := judge(s.log[:tail])
		o.phase, o.doubtful = writing, c.Doubtful() && !m.rules.unrecorded
	case begin:
		o.trying = true
		if s.left.pieces > 0 {
			s.left.pieces--
			o.piece = true
		}
	case over:
		o.trying, o.piece = false, false
	case token:
		o.next++
		o.doubtful, o.trying = false, false
	case end, crashed:
		s.acked = s.acked || i != canceller
		*o = owner{life: o.life}
		return
	}
	m.send(s, i)
}

// conflict looks at what lies behind the last known message, as Claim, End and
// Writer do.
func (m *model) conflict(s *state, i int) {
	o := &s.owners[i]
	o.asked = false
	own := o.record(i)
	switch behind := s.log[o.tail:]; {
	case m.rules.conflictIsLoss:
		s.leave(i)
	case len(behind) > 0 && behind[0] == own:
		m.stored(s, i, o.tail+1)
	case o.phase == claiming && m.rules.staleEpoch && i != canceller:
		o.tail = len(s.log)
		m.send(s, i)
	case o.phase == claiming || o.phase == refusing:
		m.take(s, i) // whoever wrote meanwhile is read, too
	case slices.ContainsFunc(behind, func(x message) bool { return x.kind != noise && x != own }):
		s.leave(i) // stale, or another ended it
	case slices.Contains(behind, own):
		m.stored(s, i, o.tail+slices.Index(behind, own)+1)
	default:
		o.tail = len(s.log)
		m.send(s, i)
	}
}

// leave lets an owner give the request up: another must have it by then.
func (s *state) leave(i int) {
	o := &s.owners[i]
	if !slices.ContainsFunc(s.log, func(m message) bool { return m.ends() || m.kind == claim && m.epoch > o.epoch }) {
		s.fault = fmt.Sprintf("owner %d gives up what nobody else has", i)
	}
	*o = owner{life: o.life}
}
