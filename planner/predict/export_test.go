package predict

// FitRidge is ridge regression alone.
func FitRidge(x [][]float64, y []float64, lambda float64) (r *Ridge, unseen []float64) {
	return fitRidge(x, y, lambda)
}
