package tokenlog

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"

	"github.com/switchyard/switchyard/pkg/transport/bus"
	pb "github.com/switchyard/switchyard/schemas/switchyard/v1"
)

// A store may lose what it has acknowledged: the end of a stream, a part of it, or all.
//
//	the end of a log ─▶ its owner has its newest records, and writes them again
//	more, or no owner ─▶ Restart: an acceptance in place of all that is left; the next owner computes
//	                     the same tokens from the prompt
//	readers ─▶ Chain.Again: what comes a second time is not new, and must be the same

// keptBytes bounds what an owner keeps of its log to write it again: some thousands of tokens, and far more than a
// request makes in the two minutes for which a server keeps what it has not synced.
const keptBytes = 256 << 10

// kept are the newest records of a log, as they were written.
type kept struct {
	data []byte // each behind its length
	from int    // the number of the first one, counted from the log's beginning
	end  int    // of the next one
}

// add keeps a record, and lets the older half go when there is no room.
func (k *kept) add(record []byte) {
	if len(k.data)+len(record) > keptBytes {
		k.drop(len(k.data) / 2)
	}
	if k.end++; len(record) > keptBytes/2 { // such as logits
		k.data, k.from = nil, k.end
		return
	}
	k.data = protowire.AppendBytes(k.data, record)
}

// drop lets records of so many bytes go, or a little more.
func (k *kept) drop(bytes int) {
	rest := k.data
	for len(rest) > 0 && len(k.data)-len(rest) < bytes {
		_, n := protowire.ConsumeBytes(rest)
		rest = rest[n:]
		k.from++
	}
	k.data = append(make([]byte, 0, keptBytes), rest...)
}

// behind returns the kept records from a number on; false: older ones would be needed.
func (k *kept) behind(n int) (records [][]byte, ok bool) {
	if n < k.from {
		return nil, false
	}
	at := k.from
	for rest := k.data; len(rest) > 0; at++ {
		record, size := protowire.ConsumeBytes(rest)
		if rest = rest[size:]; at >= n {
			records = append(records, record)
		}
	}
	return records, true
}

// keepHistory keeps what a log had when it was claimed.
func (w *Writer) keepHistory(entries []Entry) {
	for _, e := range entries {
		data, err := proto.Marshal(e.Record)
		if err != nil { // it came out of a message
			return
		}
		w.kept.add(data)
	}
}

// mend writes again what a log has lost of what its owner had written, and returns the number of its last message then.
// It goes on where it was interrupted.
func (l *Log) mend(ctx context.Context, w *Writer) (last uint64, err error) {
	for {
		h, err := l.read(ctx, w.request)
		if errors.Is(err, ErrUnknown) {
			h, err = &history{chain: l.NewChain()}, nil
		}
		if err != nil {
			return 0, err
		}
		lost, err := w.lostBehind(h)
		if err != nil {
			return 0, err
		}
		if last, err = l.rewrite(ctx, w.subject, h.tail, lost); !errors.Is(err, errConflict) {
			return last, err
		}
	}
}

// lostBehind returns the records that a log has lost of its owner's; an error where others have written, or the owner has not
// kept as many.
func (w *Writer) lostBehind(h *history) ([][]byte, error) {
	n := len(h.entries)
	switch {
	case h.chain.end != nil:
		return nil, fmt.Errorf("%w: %s", ErrFinished, w.request)
	case h.chain.epoch > w.epoch || n > w.kept.end:
		return nil, fmt.Errorf("%w: %s", ErrStale, w.request)
	}
	lost, ok := w.kept.behind(max(0, n-1))
	if n > 0 && (!ok || len(lost) == 0) { // but for the last one it is known
		lost, ok = w.kept.behind(n)
	} else if n > 0 {
		own := &pb.Record{}
		if proto.Unmarshal(lost[0], own) != nil || !sameRecord(own, h.entries[n-1].Record) {
			return nil, fmt.Errorf("%w: %s", ErrStale, w.request)
		}
		lost = lost[1:]
	}
	if !ok || h.chain.broken != nil {
		return nil, fmt.Errorf("%w: %s", ErrUnknown, w.request)
	}
	return lost, nil
}

// sameRecord reports whether two records of one place in a log are one.
func sameRecord(a, b *pb.Record) bool {
	if a.GetAccept() != nil && b.GetAccept() != nil {
		return SameOpening(a.GetAccept(), b.GetAccept())
	}
	return proto.Equal(a, b)
}

// rewrite appends records behind a log's last message.
func (l *Log) rewrite(ctx context.Context, subject string, after uint64, records [][]byte) (last uint64, err error) {
	for _, data := range records {
		seq, err := l.conn.StoreBytes(ctx, subject, data, expect(after))
		if bus.IsWrongSequence(err) {
			seq, err = l.recognise(ctx, subject, data, after)
		}
		if err != nil {
			return 0, err
		}
		after = seq
	}
	return after, nil
}

// mendWithin bounds one attempt to write again what was lost.
const mendWithin = 30 * time.Second

// mend writes again what the log has lost, or loses it.
func (w *Writer) mend() {
	ctx, cancel := context.WithTimeout(context.Background(), mendWithin)
	defer cancel()
	last, err := w.log.mend(ctx, w)
	w.mu.Lock()
	defer w.mu.Unlock()
	switch {
	case w.err != nil:
	case err == nil:
		w.last, w.lacks = last, time.Time{}
		w.launch()
	case errors.Is(err, ErrStale), errors.Is(err, ErrFinished), errors.Is(err, ErrUnknown):
		w.lose(err)
	case errors.Is(err, context.DeadlineExceeded), errors.Is(err, bus.ErrReplaced):
		w.failed(nats.ErrTimeout) // it conflicts again, and goes on from there
	default:
		w.failed(err)
	}
}

// lookAgain sees, when the connection is back, whether the log's last message is the one that it was: a server that
// has lost the end of its stream may have given that number to another owner's.
func (w *Writer) lookAgain() {
	ctx, cancel := context.WithTimeout(context.Background(), resolveWithin)
	defer cancel()
	at := time.Now()
	m, err := w.log.conn.Next(ctx, w.log.stream, w.subject, w.last) // nothing is under way that changes it
	if err != nil && !errors.Is(err, bus.ErrNoMessage) {
		w.mu.Lock()
		defer w.mu.Unlock()
		if w.err == nil {
			w.tries++
			w.failed(err)
		}
		return
	}
	own := &pb.Record{}
	newest, _ := w.kept.behind(max(w.kept.from, w.kept.end-1))
	e, unread := decode(m)
	same := err == nil && m.Sequence == w.last && unread == nil && len(newest) > 0 && proto.Unmarshal(newest[0], own) == nil && sameRecord(own, e.Record)
	same = same || w.log.conn.Clustered() // a server may lack what others have; the next append tells (mayCome)
	w.mu.Lock()
	w.seen = at
	if same && w.err == nil {
		w.launch()
	}
	w.mu.Unlock()
	if !same {
		w.mend()
	}
}

// Restart begins a log anew whose records are gone, in whole or in part, so that its next owner computes the answer from
// the prompt again. It changes nothing of a log that is whole. Of one that a brownout has changed rows of, nobody
// could make the same tokens: that is ErrNotWhole.
func (l *Log) Restart(ctx context.Context, request string, opened *pb.Accept) error {
	for {
		h, err := l.read(ctx, request)
		if errors.Is(err, ErrUnknown) {
			h, err = &history{chain: l.NewChain()}, nil
		}
		if err == nil {
			err = h.restartable(opened)
		}
		if err != nil || h.chain.accept != nil && h.chain.broken == nil {
			return err
		}
		record := &pb.Record{Epoch: h.chain.epoch + 1, Kind: &pb.Record_Accept{Accept: opened}}
		if _, err := l.put(ctx, request, record, h.tail); !errors.Is(err, errConflict) {
			return err
		}
	}
}

func (h *history) restartable(opened *pb.Accept) error {
	c := &h.chain
	switch {
	case c.accept != nil && !SameOpening(c.accept, opened), c.Foreign() != nil:
		return ErrForeign
	case c.end != nil:
		return ErrFinished
	case c.broken == nil && c.accept != nil:
		return nil
	case c.accept.GetLost(), opened.GetLost(), opened.GetSequence() == nil:
		return fmt.Errorf("%w: it is being ended, or a release before this one has opened it", ErrNotWhole)
	}
	for _, e := range h.entries {
		if t := e.Record.GetToken(); t.GetDegraded() != nil || len(t.GetFates()) > 0 {
			return fmt.Errorf("%w: a brownout had changed it (%w)", ErrNotWhole, c.broken)
		}
	}
	return nil
}
