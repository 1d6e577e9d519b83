package pipeline_test

import (
	"fmt"
	"math"
	"strings"
)

const (
	plotWidth, plotHeight = 640, 120
	plotLeft, plotTop     = 60, 28
	plotGap               = 30
)

// plot draws each figure over the time, below each other.
func plot(samples []sample) []byte {
	list := figures()
	last := samples[len(samples)-1].at
	var b strings.Builder
	height := plotTop + len(list)*(plotHeight+plotGap) + plotGap
	fmt.Fprintf(&b, `<svg xmlns="http://www.w3.org/2000/svg" width="%d" height="%d" font-family="sans-serif" font-size="11">`+"\n", plotLeft+plotWidth+20, height)
	fmt.Fprintf(&b, `<rect width="100%%" height="100%%" fill="white"/>`+"\n")
	for n, f := range list {
		top := plotTop + n*(plotHeight+plotGap)
		most := 0.0
		for _, p := range samples {
			most = max(most, f.of(p))
		}
		scale := ceiling(most)
		fmt.Fprintf(&b, `<text x="%d" y="%d" fill="%s" font-weight="bold">%s</text>`+"\n", plotLeft, top-6, f.colour, f.name)
		for _, share := range []float64{0, 0.5, 1} {
			y := float64(top) + plotHeight*(1-share)
			fmt.Fprintf(&b, `<path d="M%d %.1fh%d" stroke="#ddd"/><text x="%d" y="%.1f" text-anchor="end">%g</text>`+"\n",
				plotLeft, y, plotWidth, plotLeft-6, y+4, scale*share)
		}
		var points []string
		for _, p := range samples {
			x := plotLeft + plotWidth*float64(p.at)/float64(last)
			points = append(points, fmt.Sprintf("%.1f,%.1f", x, float64(top)+plotHeight*(1-f.of(p)/scale)))
		}
		fmt.Fprintf(&b, `<polyline points="%s" fill="none" stroke="%s" stroke-width="1.5"/>`+"\n", strings.Join(points, " "), f.colour)
	}
	const ticks = 6
	for n := range ticks + 1 {
		fmt.Fprintf(&b, `<text x="%d" y="%d" text-anchor="middle">%.3g min</text>`+"\n", plotLeft+plotWidth*n/ticks, height-plotGap/2,
			last.Minutes()*float64(n)/ticks)
	}
	b.WriteString("</svg>\n")
	return []byte(b.String())
}

// ceiling is the least of 1, 2 and 5 times a power of ten that is not below v.
func ceiling(v float64) float64 {
	if v <= 0 {
		return 1
	}
	power := math.Pow(10, math.Floor(math.Log10(v)))
	for _, m := range []float64{1, 2, 5, 10} {
		if v <= m*power {
			return m * power
		}
	}
	return v
}
