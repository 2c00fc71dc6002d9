package model

import "fmt"

// PieceKind is what a piece of a model is for.
type PieceKind uint8

// The kinds of pieces.
const (
	EmbedPiece  PieceKind = iota // what rows begin with
	HeadPiece                    // what follows the last layer
	LayerPiece                   // a layer but its gate and its routed experts
	RouterPiece                  // a layer's gate
	ExpertPiece                  // one expert
)

// Piece is what is stored and fetched together, because one service needs all of
// it: attention the first three kinds, a gate routers, a host its experts.
type Piece struct {
	Kind          PieceKind
	Layer, Expert int // 0 where the kind has none
}

func (p Piece) String() string {
	switch p.Kind {
	case EmbedPiece:
		return "embed"
	case HeadPiece:
		return "head"
	case LayerPiece:
		return fmt.Sprintf("layer.%d", p.Layer)
	case RouterPiece:
		return fmt.Sprintf("router.%d", p.Layer)
	}
	return fmt.Sprintf("expert.%d.%d", p.Layer, p.Expert)
}

// piece returns where ref belongs.
func (r Ref) piece() Piece {
	switch {
	case r.Role.IsExpert():
		return Piece{ExpertPiece, r.Layer, r.Expert}
	case r.Role >= Router && r.Role <= RouterCorrection:
		return Piece{Kind: RouterPiece, Layer: r.Layer}
	case r.Role.IsLayer():
		return Piece{Kind: LayerPiece, Layer: r.Layer}
	case r.Role >= FinalNorm:
		return Piece{Kind: HeadPiece}
	}
	return Piece{Kind: EmbedPiece}
}

// pieceOf returns where the model's files keep ref: a tied head is the embedding.
func (m *Model) pieceOf(ref Ref) Piece {
	if ref.Role == Head && m.Spec.TiedEmbeddings {
		ref.Role = Embed
	}
	return ref.piece()
}

// slice is a stored tensor, or of a stacked one a single expert's part.
type slice struct {
	name   string
	expert int // -1: the whole tensor
}

// contents returns the pieces of the model in their order, and what is stored for each.
func (m *Model) contents() (pieces []Piece, of map[Piece][]slice) {
	of = map[Piece][]slice{}
	seen := map[slice]Piece{}
	for ref := range m.Spec.Refs() {
		p, at := ref.piece(), m.stored(ref)
		if _, known := of[p]; !known {
			pieces = append(pieces, p)
		}
		for _, name := range at.names() {
			s := slice{name, -1}
			if at.Stacked {
				s.expert = ref.Expert
			}
			if before, twice := seen[s]; twice && before == p {
				continue
			}
			seen[s] = p
			of[p] = append(of[p], s)
		}
	}
	return pieces, of
}
