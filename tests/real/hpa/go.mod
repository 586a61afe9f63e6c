module headroom.dev/tests/real/hpa

go 1.26
