package harness

// Jain is Jain's fairness index of the given shares: 1 if all are equal, 1/n if
// one of n takes everything, 0 if nobody has any.
func Jain(shares []float64) float64 {
	var sum, squares float64
	for _, x := range shares {
		sum += x
		squares += x * x
	}
	if squares == 0 {
		return 0
	}
	return sum * sum / (float64(len(shares)) * squares)
}
