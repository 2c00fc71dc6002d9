package tokenizer

import (
	"github.com/switchyard/switchyard/pkg/edge"
	pb "github.com/switchyard/switchyard/schemas/switchyard/v1"
)

// What a position's log-probabilities and logits take at most, in bytes.
const (
	// chunkRoom is for the rest of a chunk or record, and its headers.
	chunkRoom       = 4096
	logitBytes      = 4
	jsonLogitBytes  = 16 // such as -1.17549435e-38 and a comma
	candidateBytes  = 16
	jsonCandidate   = 64 // such as {"id":4294967295,"logprob":-1.17549435e-38},
	candidatesExtra = 1  // the chosen one
)

// largestChunk bounds the bytes of a chunk, or of its record in the token log.
func largestChunk(seq *pb.Sequence, encoding pb.Encoding, vocab int) int64 {
	logit, candidate := int64(logitBytes), int64(candidateBytes)
	if encoding == pb.Encoding_ENCODING_JSON {
		logit, candidate = jsonLogitBytes, jsonCandidate
	}
	size := int64(chunkRoom) + candidate*int64(seq.GetSampling().GetLogprobs()+candidatesExtra)
	if seq.Score == "logits" {
		size += logit * int64(vocab)
	}
	return size
}

// checkSizes refuses a request whose chunks or records the server would not
// take: it would never end.
func (s *Service) checkSizes(seq *pb.Sequence, encoding pb.Encoding) error {
	size, limit := largestChunk(seq, encoding, s.d.Model.Spec.Vocab), s.d.Conn.MaxPayload()
	if size <= limit {
		return nil
	}
	return edge.Errorf(edge.PayloadTooLarge,
		"one chunk of this answer may have %d bytes (score %q, logprobs %d, a vocabulary of %d), and the NATS server takes %d: ask for less (score logprobs instead of logits), use protobuf instead of JSON, or raise max_payload",
		size, seq.Score, max(0, seq.GetSampling().GetLogprobs()), s.d.Model.Spec.Vocab, limit)
}
