"""What the operator and the chaos controller share: how a controller runs on Kubernetes, and what a MiniKafka cluster looks like
there. It knows neither of the two.
"""
