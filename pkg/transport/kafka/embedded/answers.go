package embedded

import (
	"encoding/binary"

	"github.com/switchyard/switchyard/pkg/transport/kafka/wire"
)

// Kafka's codes of errors.
const (
	codeUnknownTopic     = 3
	codeTooLarge         = 10
	codeMechanism        = 33
	codeSASLState        = 34
	codeVersion          = 35
	codeInvalidPartition = 37
	codePolicy           = 44
	codeTransaction      = 53
	codeLogin            = 58
	codeInvalidRecord    = 87
)

func answer(number int32) []byte { return binary.BigEndian.AppendUint32(nil, uint32(number)) }

func put16(b []byte, v int16) []byte { return binary.BigEndian.AppendUint16(b, uint16(v)) }

func put32(b []byte, v int32) []byte { return binary.BigEndian.AppendUint32(b, uint32(v)) }

func put64(b []byte, v int64) []byte { return binary.BigEndian.AppendUint64(b, uint64(v)) }

func putText(b []byte, s string) []byte { return append(put16(b, int16(len(s))), s...) }

func putBytes(b []byte, s string) []byte { return append(put32(b, int32(len(s))), s...) }

// versions says what there is. A version of the question that is not known here has
// another form; the answer is the oldest one then, by which clients ask again.
func versions(h wire.Header) []byte {
	code, version := int16(0), h.Version
	if version < 0 || version > 2 {
		code, version = codeVersion, 0
	}
	known := wire.Known()
	b := put32(put16(answer(h.Correlation), code), int32(len(known)))
	for _, a := range known {
		b = put16(put16(put16(b, a.Key), a.Min), a.Max)
	}
	if version > 0 {
		b = put32(b, 0) // not throttled
	}
	return b
}

func handshake(number int32, code int16, names []string) []byte {
	b := put32(put16(answer(number), code), int32(len(names)))
	for _, n := range names {
		b = putText(b, n)
	}
	return b
}

func authenticated(h wire.Header, code int16, text, step string) []byte {
	b := putBytes(putText(put16(answer(h.Correlation), code), text), step)
	if h.Version > 0 {
		b = put64(b, 0) // for as long as the connection is
	}
	return b
}

func notProduced(h wire.Header, r refusal) []byte {
	b := putText(put32(answer(h.Correlation), 1), r.topics[0])
	b = put32(b, int32(len(r.partitions)))
	for _, p := range r.partitions {
		b = put64(put64(put16(put32(b, p), r.code), -1), -1)
		if h.Version >= 5 {
			b = put64(b, -1)
		}
		if h.Version >= 8 {
			b = putText(put32(b, 0), r.Error())
		}
	}
	return put32(b, 0) // not throttled
}

func notCreated(h wire.Header, r refusal) []byte {
	b := answer(h.Correlation)
	if h.Version >= 2 {
		b = put32(b, 0) // not throttled
	}
	b = put32(b, int32(len(r.topics)))
	for _, t := range r.topics {
		b = put16(putText(b, t), r.code)
		if h.Version >= 1 {
			b = putText(b, r.Error())
		}
	}
	return b
}
