package transfer

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"strconv"
	"strings"

	"google.golang.org/protobuf/proto"

	"github.com/switchyard/switchyard/pkg/policy/plan"
	"github.com/switchyard/switchyard/pkg/transport/wire"
	pb "github.com/switchyard/switchyard/schemas/switchyard/v1"
)

// Sum is what an object holds, by its digest.
type Sum = [sha256.Size]byte

// Group names the objects of a key that names its owner: attempts share them, so that what one has
// computed another one need not.
func Group(k *pb.Key) string {
	return fmt.Sprintf("%s-%s-%s-%s-%s-%s", k.GetOwner(), base36(k.GetEpoch()), base36(k.GetStep()), base36(uint64(k.GetMicrobatch())), base36(uint64(k.GetLayer())), base36(uint64(k.GetPart())))
}

func base36(n uint64) string { return strconv.FormatUint(n, 36) }

// nameOf is a piece's: what says "i" for rows and "o" for outputs.
func nameOf(function string, replica int, what string, minibatch int, of Sum) string {
	return fmt.Sprintf("%s.%d.%s.%d.%s", function, replica, what, minibatch, hex.EncodeToString(of[:8]))
}

// Bounds of names, which become parts of subjects.
const maxName = 96

// checkName wants five tokens of letters and digits.
func checkName(name string) error {
	tokens := strings.Split(name, ".")
	bad := len(name) > maxName || len(tokens) != 5
	for _, token := range tokens {
		bad = bad || token == "" || strings.Trim(token, "0123456789abcdefghijklmnopqrstuvwxyz") != ""
	}
	if bad {
		return fmt.Errorf("%w: an object named %.100q; a name is a function, a replica, i or o, a minibatch and a hash", wire.ErrMalformed, name)
	}
	return nil
}

// outputName is that of what becomes of a piece of rows: it follows from the rows and from what is
// to be done with them, so that whoever computes the same finds it.
func outputName(d *pb.Dispatch, m minibatch, p *pb.Piece) string {
	part := m.with(d, p.Sha256)
	part.Function, part.Prefill, part.Decision = "", false, 0 // how they came
	part.Key = &pb.Key{Version: d.Key.Version, Model: d.Key.Model, Rows: d.Key.Rows, RowSums: d.Key.RowSums}
	body, _ := proto.MarshalOptions{Deterministic: true}.Marshal(part) // numbers and bytes can be encoded
	tokens := strings.Split(p.Name, ".")                               // checked
	replica, _ := strconv.Atoi(tokens[1])
	at, _ := strconv.Atoi(tokens[3])
	return nameOf(tokens[0], replica, "o", at, sha256.Sum256(body))
}

// checkParcel says what is wrong with a dispatch whose rows are in objects, and returns its
// minibatches: memory and requests follow its numbers only afterwards.
func (l *Link) checkParcel(d *pb.Dispatch) ([]minibatch, error) {
	if err := l.Shape.CheckKey(d.Key); err != nil {
		return nil, err
	}
	p, t := d.Parcel, d.Tensor
	switch {
	case p.Mode != plan.Pipelined && p.Mode != plan.Indirect:
		return nil, fmt.Errorf("%w: rows in objects, of transfer mode %d", wire.ErrMalformed, p.Mode)
	case (p.Mode == plan.Pipelined) != (p.Minibatch > 0):
		return nil, fmt.Errorf("%w: minibatches of %d rows in transfer mode %d", wire.ErrMalformed, p.Minibatch, p.Mode)
	case t == nil || len(t.Data) > 0 || t.Rows == 0 || t.Rows > d.Key.Rows || int(t.Cols) != l.Shape.Hidden:
		return nil, fmt.Errorf("%w: a tensor (%d, %d) with %d bytes for rows in objects, of a group of %d rows", wire.ErrMalformed, t.GetRows(), t.GetCols(), len(t.GetData()), d.Key.Rows)
	case len(d.Place) != len(d.Expert) || len(d.Place) != len(d.Weight):
		return nil, fmt.Errorf("%w: dispatch with %d experts, %d places, %d weights", wire.ErrMalformed, len(d.Expert), len(d.Place), len(d.Weight))
	}
	all := l.minibatches(d, l.each(p, t))
	if len(all) == 0 || len(all) != len(p.Pieces) || all[len(all)-1].end != int(t.Rows) {
		return nil, fmt.Errorf("%w: %d objects for %d minibatches of %d rows", wire.ErrMalformed, len(p.Pieces), len(all), t.Rows)
	}
	for k, m := range all {
		piece := p.Pieces[k]
		if err := checkPiece(piece, (m.end-m.rows)*l.Shape.Hidden*4); err != nil {
			return nil, err
		}
	}
	return all, nil
}

// each is the rows of an object but the last.
func (l *Link) each(p *pb.Parcel, t *pb.Tensor) int {
	if p.Minibatch > 0 {
		return int(p.Minibatch)
	}
	return int(t.Rows)
}

func checkPiece(p *pb.Piece, most int) error {
	if int64(p.GetSize()) > int64(most) || len(p.GetSha256()) != sha256.Size {
		return fmt.Errorf("%w: an object of %d bytes with a digest of %d; it has %d bytes at most, and a digest %d", wire.ErrMalformed, p.GetSize(), len(p.GetSha256()), most, sha256.Size)
	}
	return checkName(p.GetName())
}
