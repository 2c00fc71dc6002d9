package kafka

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	kafkago "github.com/segmentio/kafka-go"
	"github.com/segmentio/kafka-go/protocol"
	produceapi "github.com/segmentio/kafka-go/protocol/produce"
)

// record is a sample that is encoded.
type record struct {
	key, value []byte
	made       time.Time
}

// producer sends records. All that one broker gets goes in one request, whatever
// the number of partitions: a request for each would cost more than what is in it.
type producer struct {
	topics   *topics
	client   *kafkago.Client
	balancer kafkago.Hash
}

type verdict struct {
	sent    int
	refused []record // for good
	failed  []record // to be tried again
	err     error    // of the last one that was refused or failed
}

// produce returns when all brokers in sync have the records, or why not.
func (p *producer) produce(ctx context.Context, records []record) (v verdict) {
	l, err := p.topics.find(ctx)
	if err != nil {
		return verdict{failed: records, err: err}
	}
	for _, parts := range p.deal(l, records) {
		p.produceTo(ctx, parts, &v)
	}
	return v
}

// deal gives each record to its key's partition, and each partition to its leader.
func (p *producer) deal(l layout, records []record) map[kafkago.Broker]map[int32][]record {
	numbers := make([]int, len(l))
	dealt := map[kafkago.Broker]map[int32][]record{}
	for _, r := range records {
		at := p.balancer.Balance(kafkago.Message{Key: r.key}, numbers...)
		if dealt[l[at]] == nil {
			dealt[l[at]] = map[int32][]record{}
		}
		dealt[l[at]][int32(at)] = append(dealt[l[at]][int32(at)], r)
	}
	return dealt
}

// produceTo sends what one leader gets; the client finds him by the partitions.
func (p *producer) produceTo(ctx context.Context, parts map[int32][]record, v *verdict) {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	answer, err := p.client.Transport.RoundTrip(ctx, p.client.Addr, p.request(parts))
	if err == nil {
		err = io.ErrUnexpectedEOF
		if a, ok := answer.(*produceapi.Response); ok && len(a.Topics) == 1 {
			v.take(a.Topics[0].Partitions, parts)
			return
		}
	}
	for _, records := range parts {
		v.fail(records, fmt.Errorf("sending samples: %w", err))
	}
}

func (p *producer) request(parts map[int32][]record) *produceapi.Request {
	topic := produceapi.RequestTopic{Topic: p.topics.config.topic()}
	for number, records := range parts {
		topic.Partitions = append(topic.Partitions, produceapi.RequestPartition{
			Partition: number,
			RecordSet: protocol.RecordSet{Attributes: compression, Records: recordReader(records)},
		})
	}
	return &produceapi.Request{
		Acks: int16(kafkago.RequireAll), Timeout: int32((requestTimeout / 2).Milliseconds()), Topics: []produceapi.RequestTopic{topic},
	}
}

// compression costs least for what it saves on messages of numbers.
const compression = protocol.Snappy

func recordReader(records []record) protocol.RecordReader {
	out := make([]protocol.Record, len(records))
	for i, r := range records {
		out[i] = protocol.Record{Time: r.made, Key: protocol.NewBytes(r.key), Value: protocol.NewBytes(r.value)}
	}
	return protocol.NewRecordReader(out...)
}

// take sorts the records by what the broker says of their partitions; what it says
// nothing of has failed.
func (v *verdict) take(answers []produceapi.ResponsePartition, parts map[int32][]record) {
	for _, a := range answers {
		records := parts[a.Partition]
		delete(parts, a.Partition)
		switch err := kafkago.Error(a.ErrorCode); {
		case err == 0:
			v.sent += len(records)
		case permanent(err):
			v.refused, v.err = append(v.refused, records...), fmt.Errorf("sending samples: %w", err)
		default:
			v.fail(records, fmt.Errorf("sending samples: %w", err))
		}
	}
	for _, records := range parts {
		v.fail(records, errors.New("sending samples: a broker answered without a word about some"))
	}
}

func (v *verdict) fail(records []record, err error) {
	v.failed, v.err = append(v.failed, records...), err
}

// permanent reports whether records would be refused again, whatever is done about
// the brokers.
func permanent(err kafkago.Error) bool {
	switch err {
	case kafkago.MessageSizeTooLarge, kafkago.RecordListTooLarge, kafkago.InvalidMessage, kafkago.InvalidRecord, kafkago.InvalidTimestamp:
		return true
	}
	return false
}
