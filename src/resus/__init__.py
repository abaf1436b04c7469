"""resus"""
