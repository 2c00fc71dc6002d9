package model

import "fmt"

// Role says what a tensor is for, whatever its family calls it.
type Role uint8

// The roles. Those of the layers begin with InputNorm, those of single experts
// with ExpertGate. Shapes are in needs.go.
const (
	Embed            Role = iota // token embeddings
	EmbedPositions               // learned positions
	EmbedTypes                   // token types
	EmbedNorm                    // norm of the embeddings' sum
	EmbedNormBias                //
	EncoderEmbed                 // the same of an encoder that stands before a decoder
	EncoderPositions             //
	EncoderTypes                 //
	EncoderNorm                  //
	EncoderNormBias              //
	FinalNorm                    // before the head
	FinalNormBias                //
	HeadDense                    // BERT's transform before the head
	HeadDenseBias                //
	HeadNorm                     //
	HeadNormBias                 //
	Head                         // logits
	HeadBias                     //

	InputNorm     // of the mixer: before it, or after it where the layer says so
	InputNormBias //
	PostNorm      // of the feed-forward network
	PostNormBias  //
	Q             // queries
	K             //
	V             //
	O             //
	QBias         //
	KBias         //
	VBias         //
	OBias         //
	QNorm         // of queries
	KNorm         // of keys
	Sinks         // a score per head that attends to nothing
	QDown         // MLA: compresses the input to the query's latent
	QDownNorm     //
	QUp           // MLA: queries from their latent
	KVDown        // MLA: the latent of keys and values, then the rotated part of keys
	KVDownNorm    //
	KVUp          // MLA: per head keys without position, then values, from the latent
	CrossNorm     // of the cross attention
	CrossNormBias //
	CrossQ        //
	CrossK        //
	CrossV        //
	CrossO        //
	CrossQBias    //
	CrossKBias    //
	CrossVBias    //
	CrossOBias    //

	Router           // a row per expert
	RouterBias       // added to the logits
	RouterCorrection // added to the scores for choosing only
	DenseGate        //
	DenseUp          //
	DenseDown        //
	DenseGateBias    //
	DenseUpBias      //
	DenseDownBias    //
	SharedGate       //
	SharedUp         //
	SharedDown       //
	SharedRouter     // the shared expert's sigmoid gate

	ExpertGate     //
	ExpertUp       //
	ExpertDown     //
	ExpertGateBias //
	ExpertUpBias   //
	ExpertDownBias //
	roles
)

var roleNames = [roles]string{
	"Embed", "EmbedPositions", "EmbedTypes", "EmbedNorm", "EmbedNormBias",
	"EncoderEmbed", "EncoderPositions", "EncoderTypes", "EncoderNorm", "EncoderNormBias",
	"FinalNorm", "FinalNormBias", "HeadDense", "HeadDenseBias", "HeadNorm", "HeadNormBias", "Head", "HeadBias",
	"InputNorm", "InputNormBias", "PostNorm", "PostNormBias",
	"Q", "K", "V", "O", "QBias", "KBias", "VBias", "OBias", "QNorm", "KNorm", "Sinks",
	"QDown", "QDownNorm", "QUp", "KVDown", "KVDownNorm", "KVUp",
	"CrossNorm", "CrossNormBias", "CrossQ", "CrossK", "CrossV", "CrossO", "CrossQBias", "CrossKBias", "CrossVBias", "CrossOBias",
	"Router", "RouterBias", "RouterCorrection",
	"DenseGate", "DenseUp", "DenseDown", "DenseGateBias", "DenseUpBias", "DenseDownBias",
	"SharedGate", "SharedUp", "SharedDown", "SharedRouter",
	"ExpertGate", "ExpertUp", "ExpertDown", "ExpertGateBias", "ExpertUpBias", "ExpertDownBias",
}

// String returns the constant's name.
func (r Role) String() string {
	if r < roles {
		return roleNames[r]
	}
	return fmt.Sprintf("Role(%d)", uint8(r))
}

// IsExpert reports whether each expert has a tensor of this role.
func (r Role) IsExpert() bool { return r >= ExpertGate && r < roles }

// IsLayer reports whether layers have tensors of this role.
func (r Role) IsLayer() bool { return r >= InputNorm && r < roles }

// FFNRoles are the tensors of a feed-forward network; see FFNSpec for which of
// them it has.
type FFNRoles struct{ Gate, Up, Down, GateBias, UpBias, DownBias Role }

// The feed-forward networks of a layer. No shared expert has biases.
var (
	DenseRoles  = FFNRoles{DenseGate, DenseUp, DenseDown, DenseGateBias, DenseUpBias, DenseDownBias}
	SharedRoles = FFNRoles{Gate: SharedGate, Up: SharedUp, Down: SharedDown}
	ExpertRoles = FFNRoles{ExpertGate, ExpertUp, ExpertDown, ExpertGateBias, ExpertUpBias, ExpertDownBias}
)

// Ref names one tensor. Layer is 0 for those outside the layers, Expert 0 for
// those outside the experts.
type Ref struct {
	Role          Role
	Layer, Expert int
}

// String reads like "ExpertGate of layer 3, expert 7".
func (r Ref) String() string {
	switch {
	case r.Role.IsExpert():
		return fmt.Sprintf("%v of layer %d, expert %d", r.Role, r.Layer, r.Expert)
	case r.Role.IsLayer():
		return fmt.Sprintf("%v of layer %d", r.Role, r.Layer)
	}
	return r.Role.String()
}
