package routing

// DemoStates returns the fit to a recording of the demo model: 8,037 rows of 81 texts, of dialogues,
// maths, questions in English and German, and encyclopedia articles (docs/offload.md has the
// command). What a token asks for there depends little on where it stands.
func DemoStates() StateParams {
	return StateParams{Domain: 0.133, Topic: 0.017, Token: 0.762, Context: 0.088, Near: Neighbours, Layer: 0.943, Sharp: 1.49, Common: 0.394}
}
