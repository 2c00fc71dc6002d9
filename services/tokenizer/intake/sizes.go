package intake

import (
	"google.golang.org/protobuf/proto"

	"github.com/switchyard/switchyard/pkg/control/members"
	"github.com/switchyard/switchyard/pkg/request/edge"
	"github.com/switchyard/switchyard/pkg/request/tokenlog"
	pb "github.com/switchyard/switchyard/schemas/switchyard/v1"
)

// What a position's log-probabilities and logits take at most, in bytes.
const (
	// chunkRoom is for the rest of a chunk or record, and its headers.
	chunkRoom       = 4096
	logitBytes      = 4
	jsonLogitBytes  = 16 // such as -1.17549435e-38 and a comma
	candidateBytes  = 16
	jsonCandidate   = 64        // such as {"id":4294967295,"logprob":-1.17549435e-38,"token":""},
	pieceBytes      = 512       // the token of a candidate, in a chunk
	candidatesExtra = 1         // the chosen one
	recordRoom      = 52        // the rest of a token's or score's record
	logRoom         = 2048      // the records of a log that are neither
	idBytes         = 5         // an id, or a place, of a prompt whose masks are filled
	degradedRoom    = 26        // what a token's record has of what a brownout changed so far
	fateRoom        = 40        // the rest of a row's fates
	maxFates        = 320 << 10 // of a prompt
)

// largestChunk bounds the bytes of a chunk, or of its record in the token log.
func largestChunk(seq *pb.Sequence, encoding pb.Encoding, vocab int) int64 {
	logit, candidate := int64(logitBytes), int64(candidateBytes)
	if encoding == pb.Encoding_ENCODING_JSON {
		logit, candidate = jsonLogitBytes, jsonCandidate
	}
	size := int64(chunkRoom) + (candidate+pieceBytes)*int64(seq.GetSampling().GetLogprobs()+candidatesExtra)
	if seq.Score == "logits" {
		size += logit * int64(vocab)
	}
	return size
}

// logBytes bounds what a request's log takes, under its subject.
func logBytes(subject string, seq *pb.Sequence, vocab int) int64 {
	size := logRoom + fillBytes(seq) + int64(proto.Size(seq)) + int64(seq.MaxTokens)*tokenlog.StoredSize(subject, recordRoom+candidates(seq))
	if seq.Score != "" {
		size += int64(len(seq.PromptIds)) * tokenlog.StoredSize(subject, recordRoom+logits(seq, vocab))
	}
	return size
}

// packedBytes bounds what remains of a log when its end was delivered and it was packed.
func packedBytes(seq *pb.Sequence, vocab int) int64 {
	size := logRoom + fillBytes(seq) + int64(proto.Size(seq)) + int64(seq.MaxTokens)*idBytes
	if n := candidates(seq); n > 0 {
		size += int64(seq.MaxTokens) * (recordRoom + n)
	}
	if seq.Score != "" {
		size += int64(len(seq.PromptIds)) * (recordRoom + logits(seq, vocab))
	}
	return size
}

// fateBytes bounds what a log has of what becomes of its rows, where a brownout may come.
func (s *common) fateBytes(seq *pb.Sequence) int64 {
	if seq.OwnExperts || !members.MayDegrade(s.members.Snapshot()) {
		return 0
	}
	return degradedBytes(seq, len(s.d.MoELayers())*s.d.Model.Spec.TopK)
}

// degradedBytes bounds what a log has of a brownout, of rows with so many slots in all layers.
func degradedBytes(seq *pb.Sequence, slots int) int64 {
	row := int64(fateRoom + (slots+3)/4)
	return min(maxFates, int64(len(seq.PromptIds))*row) + int64(seq.MaxTokens)*(degradedRoom+row)
}

// candidates bounds the log-probabilities of one token.
func candidates(seq *pb.Sequence) int64 {
	if n := seq.GetSampling().GetLogprobs(); n >= 0 {
		return candidateBytes * int64(n+candidatesExtra)
	}
	return 0
}

// logits bounds the numbers of one score.
func logits(seq *pb.Sequence, vocab int) int64 {
	switch seq.Score {
	case "logits":
		return logitBytes * int64(vocab)
	case "logprobs":
		return candidates(seq)
	}
	return 0
}

// fillBytes bounds what an acceptance keeps of a prompt whose masks are filled.
func fillBytes(seq *pb.Sequence) int64 {
	if len(seq.Fill) == 0 {
		return 0
	}
	return idBytes * int64(len(seq.PromptIds)+len(seq.Fill))
}

// scored is how many numbers a score has at most: logits or what an encoder made.
func (s *common) scored() int { return max(s.d.Model.Spec.Vocab, s.d.Model.Spec.Hidden) }

// checkSizes refuses a request whose chunks or records the server would not
// take: it would never end.
func (s *common) checkSizes(seq *pb.Sequence, encoding pb.Encoding) error {
	size, limit := largestChunk(seq, encoding, s.scored()), s.d.Conn.MaxPayload()
	if size <= limit {
		return nil
	}
	return edge.Errorf(edge.PayloadTooLarge,
		"one chunk of this answer may have %d bytes (score %q, logprobs %d, a vocabulary of %d), and the NATS server takes %d: ask for less (score logprobs instead of logits), use protobuf instead of JSON, or raise max_payload",
		size, seq.Score, max(0, seq.GetSampling().GetLogprobs()), s.d.Model.Spec.Vocab, limit)
}
