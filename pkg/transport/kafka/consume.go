package kafka

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	kafkago "github.com/segmentio/kafka-go"
	"github.com/segmentio/kafka-go/protocol"
	fetchapi "github.com/segmentio/kafka-go/protocol/fetch"

	"github.com/switchyard/switchyard/internal/pause"
	pb "github.com/switchyard/switchyard/schemas/switchyard/v1"
)

const (
	// longPoll is how long a broker waits for something to send.
	longPoll = time.Second
	// commitEvery is how often it is said how far reading has come.
	commitEvery = time.Second
	// fetchBytes and partitionBytes bound an answer.
	fetchBytes, partitionBytes = 4 << 20, 1 << 20
)

// share is this member's partitions in one generation of the group.
type share struct {
	*Reader
	generation *kafkago.Generation
	give       func(*pb.LoadSample)
	fetches    atomic.Uint64

	mu        sync.Mutex
	offsets   map[int]int64 // that are read next
	committed map[int]int64
	ahead     map[int]int64 // samples that lie before the reader
}

// consume reads this member's partitions until the generation or ctx ends. What
// was handled is committed before another member can get a partition.
func (r *Reader) consume(ctx, ended context.Context, g *kafkago.Generation, give func(*pb.LoadSample)) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(ended, cancel)()
	s := &share{Reader: r, generation: g, give: give, offsets: map[int]int64{}, committed: map[int]int64{}, ahead: map[int]int64{}}
	for _, a := range g.Assignments[r.settings.Config.topic()] {
		s.offsets[a.ID] = a.Offset
	}
	if len(s.offsets) == 0 { // more members than partitions
		r.condition.good()
		<-ctx.Done()
		return
	}
	s.run(ctx)
}

func (s *share) run(ctx context.Context) {
	defer s.lag.Store(0)
	pauses := pause.Between(firstPause, lastPause)
	for ctx.Err() == nil {
		err := s.begin(ctx)
		if err == nil {
			s.condition.good()
			pauses.Reset()
			err = s.read(ctx)
		}
		_ = s.commit() // what is not committed is read again, and known by its number
		if err != nil && ctx.Err() == nil {
			s.condition.bad(err)
			_ = pauses.Wait(ctx) // ended: so does the loop
		}
	}
}

// begin finds where to read on, and says so at once: who gets the partition next
// misses nothing that comes from now on.
func (s *share) begin(ctx context.Context) error {
	var last, young []kafkago.OffsetRequest
	for p := range s.offsets {
		last = append(last, kafkago.LastOffsetOf(p))
		young = append(young, kafkago.TimeOffsetOf(p, time.Now().Add(-keepFor)))
	}
	ends, err := s.list(ctx, last)
	if err != nil {
		return err
	}
	fromTime, err := s.list(ctx, young)
	if err != nil {
		return err
	}
	s.mu.Lock()
	for p, at := range s.offsets {
		s.offsets[p] = beginAt(at, ends[p].LastOffset, fromTime[p].Offsets)
	}
	s.mu.Unlock()
	return s.commit()
}

// beginAt is the offset to read from: the one given, or the first of samples that
// are young enough if that is later. Without one it is the end, and so it is where
// there are no young ones, and for an offset that the partition does not have: it
// was made anew.
func beginAt(given, end int64, young map[int64]time.Time) int64 {
	if given < 0 || given > end {
		return end
	}
	first := end
	for at := range young {
		if at >= 0 {
			first = min(first, at)
		}
	}
	return max(given, first)
}

func (s *share) list(ctx context.Context, of []kafkago.OffsetRequest) (map[int]kafkago.PartitionOffsets, error) {
	topic := s.settings.Config.topic()
	answer, err := s.client.ListOffsets(ctx, &kafkago.ListOffsetsRequest{Topics: map[string][]kafkago.OffsetRequest{topic: of}})
	if err != nil {
		return nil, fmt.Errorf("asking for the offsets of topic %s: %w", topic, err)
	}
	out := map[int]kafkago.PartitionOffsets{}
	for _, p := range answer.Topics[topic] {
		if p.Error != nil {
			return nil, fmt.Errorf("asking for the offset of partition %d of topic %s: %w", p.Partition, topic, p.Error)
		}
		out[p.Partition] = p
	}
	if len(out) != len(of) {
		return nil, fmt.Errorf("asking for the offsets of topic %s: %d answers for %d partitions", topic, len(out), len(of))
	}
	return out, nil
}

// read fetches from each leader until something fails or ctx ends.
func (s *share) read(ctx context.Context) error {
	l, err := s.topics.look(ctx)
	if err != nil {
		return err
	}
	leaders := map[kafkago.Broker][]int{}
	for p := range s.offsets {
		if p >= len(l) {
			return fmt.Errorf("partition %d: %w", p, kafkago.UnknownTopicOrPartition)
		}
		leaders[l[p]] = append(leaders[l[p]], p)
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var readers sync.WaitGroup
	for _, partitions := range leaders {
		readers.Go(func() { cancel(s.readFrom(ctx, partitions)) })
	}
	readers.Go(func() { s.commitNowAndThen(ctx) })
	readers.Wait()
	return context.Cause(ctx)
}

func (s *share) readFrom(ctx context.Context, partitions []int) error {
	for ctx.Err() == nil {
		asked, cancel := context.WithTimeout(ctx, longPoll+requestTimeout)
		answer, err := s.client.Transport.RoundTrip(asked, s.client.Addr, s.request(partitions))
		cancel()
		if err != nil {
			return fmt.Errorf("fetching samples: %w", err)
		}
		if err := s.take(ctx, answer); err != nil {
			return fmt.Errorf("fetching samples: %w", err)
		}
	}
	return ctx.Err()
}

func (s *share) request(partitions []int) *fetchapi.Request {
	topic := fetchapi.RequestTopic{Topic: s.settings.Config.topic()}
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, p := range s.rotated(partitions) {
		topic.Partitions = append(topic.Partitions, fetchapi.RequestPartition{
			Partition: int32(p), CurrentLeaderEpoch: -1, FetchOffset: s.offsets[p], LogStartOffset: -1, PartitionMaxBytes: partitionBytes,
		})
	}
	return &fetchapi.Request{
		ReplicaID: -1, SessionID: -1, SessionEpoch: -1,
		MaxWaitTime: int32(longPoll.Milliseconds()), MinBytes: 1, MaxBytes: fetchBytes, Topics: []fetchapi.RequestTopic{topic},
	}
}

// rotated begins with another partition each time: an answer has room for so much, and
// one partition that is full would leave none to those after it.
func (s *share) rotated(partitions []int) []int {
	at := int(s.fetches.Add(1) % uint64(len(partitions)))
	return slices.Concat(partitions[at:], partitions[:at])
}

func (s *share) take(ctx context.Context, answer kafkago.Response) error {
	a, ok := answer.(*fetchapi.Response)
	if !ok || a.ErrorCode != 0 || len(a.Topics) != 1 {
		return fmt.Errorf("the answer is an error, or to another request: %w", io.ErrUnexpectedEOF)
	}
	for i := range a.Topics[0].Partitions {
		if err := s.takePartition(ctx, &a.Topics[0].Partitions[i]); err != nil {
			return err
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	lag := int64(0)
	for n := range maps.Values(s.ahead) {
		lag += n
	}
	s.lag.Store(lag)
	return nil
}

func (s *share) takePartition(ctx context.Context, p *fetchapi.ResponsePartition) error {
	number := int(p.Partition)
	if p.ErrorCode != 0 {
		return fmt.Errorf("partition %d: %w", number, kafkago.Error(p.ErrorCode))
	}
	s.mu.Lock()
	at, ours := s.offsets[number]
	s.mu.Unlock()
	if !ours || p.RecordSet.Records == nil {
		return nil
	}
	at, err := s.records(ctx, at, p.RecordSet.Records)
	s.mu.Lock()
	s.offsets[number], s.ahead[number] = at, max(0, p.HighWatermark-at)
	s.mu.Unlock()
	return err
}

// records hands on all from an offset on, and returns the next one. A broker sends
// whole batches, which may begin earlier.
func (s *share) records(ctx context.Context, at int64, all kafkago.RecordReader) (int64, error) {
	for ctx.Err() == nil {
		r, err := all.ReadRecord()
		if errors.Is(err, io.EOF) {
			return at, nil
		}
		if err != nil {
			return at, fmt.Errorf("reading records after offset %d: %w", at, err)
		}
		value, err := protocol.ReadAll(r.Value)
		if err != nil {
			return at, fmt.Errorf("reading the record at offset %d: %w", r.Offset, err)
		}
		if r.Offset < at {
			continue
		}
		if value != nil { // else it stands for what is left out (wire.Unpack)
			s.handle(value, s.give)
		}
		at = r.Offset + 1
	}
	return at, nil
}

func (s *share) commitNowAndThen(ctx context.Context) {
	for pause.For(ctx, commitEvery) == nil {
		if err := s.commit(); err != nil {
			return // the generation ends by that, or the next one says it
		}
	}
}

// commit says how far reading has come, where that is not known yet.
func (s *share) commit() error {
	s.mu.Lock()
	fresh := map[int]int64{}
	for p, at := range s.offsets {
		if before, ok := s.committed[p]; at >= 0 && (!ok || before != at) {
			fresh[p] = at
		}
	}
	s.mu.Unlock()
	if len(fresh) == 0 {
		return nil
	}
	if err := s.generation.CommitOffsets(map[string]map[int]int64{s.settings.Config.topic(): fresh}); err != nil {
		return fmt.Errorf("committing offsets of group %s: %w", s.settings.Group, err)
	}
	s.mu.Lock()
	maps.Copy(s.committed, fresh)
	s.mu.Unlock()
	return nil
}
